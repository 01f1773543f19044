#!/usr/bin/env python3
"""Writes the tokenizers and golden results that tests/tokenizer needs, with the `tokenizers` package as oracle.

  tests/data/tokenizers/byte_fallback/   a trained tokenizer of the kind of Llama 2, with its golden.json
  tests/data/tokenizers/synthetic.json   small tokenizers that exercise single components, each with its golden
  tests/fuzz/corpus/tokenizer/           some of them as seeds

Usage: scripts/make_tokenizer_data.py   (from the root of the repository; made with tokenizers 0.23.3)
"""

import json
import pathlib

from tokenizers import Tokenizer, models, normalizers, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests/data/tokenizers"
SEEDS = ROOT / "tests/fuzz/corpus/tokenizer"

CORPUS = """\
A switchyard sorts wagons onto tracks, and an engine for experts sorts tokens onto experts.
The wagons arrive in one long train; every wagon carries a label, and the label decides the track.
When too many wagons want the same track, the others stand empty and the whole yard waits.
So the yard master counts: how many wagons went left, how many went right, and who is idle.
In the morning the yard is quiet. In the evening there are 12 trains, 345 wagons and 6789 labels.
for (int wagon = 0; wagon < train.size(); ++wagon) { track[label[wagon]].push_back(wagon); }
def sort(train): return sorted(train, key=lambda wagon: wagon.label)
Der Rangierbahnhof sortiert die Wagen auf die Gleise; jeder Wagen trägt einen Zettel.
Le triage répartit les wagons sur les voies, et chaque wagon porte une étiquette.
La estación clasifica los vagones; cada vagón lleva una señal y el tren espera.
Сортировочная станция распределяет вагоны по путям, и каждый вагон знает свой путь.
Ο σταθμός ταξινομεί τα βαγόνια στις γραμμές.
貨物列車は操車場で行き先ごとに分けられる。
编组站把车厢分到不同的轨道上。
The labels are short, the tracks are long, and the train never stops at the same place twice.
"""

TEXTS = [
    "", " ", "  ", "a", "Hello, world!", "the wagons and the trains", "  two  spaces   and three  ", "tab\tand\nnewline\r\n\n\nend",
    "12345 wagons, 3.14 tracks, 1,000,000 labels", "x=1;y=22;z=333", "naïve café e\u0301 \u0041\u030a \ufb01ne \u1e9b\u0323", "İstanbul ΣΑΣ Straße",
    "Сортировочная станция", "编组站把车厢分到不同的轨道上。", "貨物列車", "🙂 👩‍👩‍👧 🇩🇪", "\u00a0nbsp\u3000wide\u2028line\u180e", "\u0000\u0001\u007f\u0080",
    "<s>start</s>", "a<s> b </s>c", "<unk>", "▁already▁there ▁", "it's we'll they'VE I'D 'S", "the-final--countdown", "----", "-a-", "a-", "foo  [MASK]  bar", "foo[MASK]bar",
    "xword word words word,word", "word", "  lead", "trail  ", "[L] [R] [LR]  [LR]  x", "a [L]\n[R]\tb", "YESTERDAY Yesterday yesterday", "A<x>B <X> C", "<x><y><x>", "aaaaaaaaaaaaaaaaaaaaaaa", "αβγ", "Ⅷ ½ ²³ ٣",
    "<0x41>", "<0x4", "abc<sp>", "\ufffd",
]


def byte_alphabet():
    """The byte-level alphabet of GPT-2: byte -> character."""
    plain = list(range(0x21, 0x7F)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))
    rest = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


SEED_NAMES = ["byte_level_gpt2", "byte_level_normalizer", "split_regex_Contiguous_False", "split_classes", "split_llama3", "digits", "punctuation",
              "whitespace", "normalizer_NFKC", "normalizer_sequence", "added_strips", "added_normalized", "template", "ignore_merges",
              "legacy_merges", "metaspace_first_True", "unk_fused", "prepend_normalized_specials", "decoder_regex_strip"]

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}


def added(content, token_id, **flags):
    token = {"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": False}
    return {**token, **flags}


def document(vocab, merges, model=None, added_tokens=(), normalizer=None, pre_tokenizer=None, post_processor=None, decoder=None):
    """A tokenizer.json; the added tokens (content, flags) get the ids that the library gives them."""
    ids = {token: i for i, token in enumerate(vocab)}
    next_id = len(ids)
    tokens = []
    for content, flags in added_tokens:
        if content in ids:
            tokens.append(added(content, ids[content], **flags))
        else:
            tokens.append(added(content, next_id, **flags))
            next_id += 1
    bpe = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
           "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, **(model or {}), "vocab": ids, "merges": merges}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer, "post_processor": post_processor, "decoder": decoder, "model": bpe}


def learn(words, alphabet, count):
    """A few merges, most frequent pair first."""
    words = [list(word) for word in words]
    vocab, merges = list(alphabet), []
    while len(merges) < count:
        pairs = {}
        for word in words:
            for pair in zip(word, word[1:]):
                pairs[pair] = pairs.get(pair, 0) + 1
        if not pairs:
            break
        best = max(sorted(pairs), key=pairs.get)
        merges.append(list(best))
        if "".join(best) not in vocab:
            vocab.append("".join(best))
        for word in words:
            i = 0
            while i + 1 < len(word):
                if (word[i], word[i + 1]) == best:
                    word[i:i + 2] = ["".join(best)]
                i += 1
    return vocab, merges


def byte_level_model(count=60):
    alphabet = byte_alphabet()
    spell = lambda text: "".join(alphabet[b] for b in text.encode())
    words = [spell(" " + word) for word in CORPUS.split()] + [spell(word) for word in TEXTS]
    return learn(words, [alphabet[b] for b in range(256)], count)


def char_model(count=40):
    """Characters instead of bytes, with <unk> and without most of Unicode."""
    alphabet = ["<unk>", "▁"] + [chr(c) for c in range(0x20, 0x7F)] + ["\n", "é", "ä", "а", "т"]
    words = ["▁" + word for word in CORPUS.split() if word.isascii()]
    return learn(words, alphabet, count)


def split(pattern, behavior, invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def sequence(key, *parts):
    return {"type": "Sequence", key: list(parts)}


def byte_level_variants():
    vocab, merges = byte_level_model()
    make = lambda **parts: document(vocab, merges, **{"pre_tokenizer": BYTE_LEVEL, "decoder": BYTE_LEVEL, **parts})
    pre = lambda *parts: make(pre_tokenizer=sequence("pretokenizers", *parts, BYTE_LEVEL))
    specials = [("<s>", {"special": True}), ("</s>", {"special": True})]
    yield "byte_level_gpt2", make(pre_tokenizer={**BYTE_LEVEL, "add_prefix_space": True, "use_regex": True})
    yield "byte_level_no_regex", make()
    yield "byte_level_normalizer", make(normalizer={"type": "ByteLevel"}, pre_tokenizer=None)
    for behavior in ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]:
        for invert in [False, True]:
            yield f"split_string_{behavior}_{invert}", pre(split({"String": "-"}, behavior, invert))
            yield f"split_regex_{behavior}_{invert}", pre(split({"Regex": r"\s+|\d"}, behavior, invert))
    yield "split_lookaround", pre(split({"Regex": r"(?<=[a-z])(?=[A-Z\d])|^.|\W$"}, "Isolated"))
    yield "split_classes", pre(split({"Regex": r"(?i:'s|'ll|'ve)|\h{2}|[\w]+|\W|\p{^L}"}, "Isolated"))
    yield "split_llama3", pre(split({"Regex": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"}, "Isolated"))
    yield "digits", pre({"type": "Digits", "individual_digits": False})
    yield "digits_individual", pre({"type": "Digits", "individual_digits": True})
    yield "punctuation", pre({"type": "Punctuation", "behavior": "Contiguous"})
    yield "whitespace", pre({"type": "Whitespace"})
    yield "whitespace_split", pre({"type": "WhitespaceSplit"})
    for form in ["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"]:
        yield f"normalizer_{form}", make(normalizer={"type": form})
    yield "normalizer_strip", make(normalizer={"type": "Strip", "strip_left": True, "strip_right": True})
    yield "normalizer_strip_left", make(normalizer={"type": "Strip", "strip_left": True, "strip_right": False})
    yield "normalizer_sequence", make(normalizer=sequence(
        "normalizers", {"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"},
        {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}, {"type": "Prepend", "prepend": "> "}))
    yield "added_specials", make(added_tokens=specials + [("<unk>", {"special": True})])
    yield "added_single_word", make(added_tokens=[("word", {"single_word": True}), ("[MASK]", {"special": True, "single_word": True})])
    yield "added_strips", make(added_tokens=[("[L]", {"lstrip": True}), ("[R]", {"rstrip": True}), ("\n", {}),
                                             ("[LR]", {"lstrip": True, "rstrip": True, "special": True}), ("[MASK]", {"lstrip": True, "special": True})])
    yield "added_normalized", make(normalizer={"type": "Lowercase"}, added_tokens=[
        ("YESTERDAY", {"normalized": True}), ("<X>", {"normalized": True, "special": True}), ("<y>", {"normalized": False, "special": True})])
    yield "added_longest", make(added_tokens=[("a", {}), ("aa", {"special": True}), ("aaaa", {}), ("the", {}), (" the", {"special": True})])
    yield "template", make(added_tokens=specials, post_processor=sequence("processors", BYTE_LEVEL, {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [len(vocab)], "tokens": ["<s>"]},
                           "</s>": {"id": "</s>", "ids": [len(vocab) + 1, len(vocab)], "tokens": ["</s>", "<s>"]}}}))
    yield "decoder_none", make(decoder=None)
    yield "ignore_merges", document(vocab + [byte_alphabet()[0x20] + "wagonsandtracks", "Hello,"], merges, model={"ignore_merges": True},
                                    pre_tokenizer={**BYTE_LEVEL, "use_regex": True}, decoder=BYTE_LEVEL)
    yield "legacy_merges", document(vocab, ["#version: 0.2"] + [" ".join(merge) for merge in merges], pre_tokenizer=BYTE_LEVEL, decoder=BYTE_LEVEL)


def char_variants():
    vocab, merges = char_model()
    unk = {"unk_token": "<unk>"}
    metaspace = lambda scheme, split=True: {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}
    specials = [("<unk>", {"special": True}), ("<s>", {"special": True}), ("</s>", {"special": True})]
    for scheme in ["always", "first", "never"]:
        for do_split in [True, False]:
            yield f"metaspace_{scheme}_{do_split}", document(vocab, merges, model=unk, added_tokens=specials,
                                                             pre_tokenizer=metaspace(scheme, do_split), decoder=metaspace(scheme, do_split))
    yield "metaspace_first_stripped", document(vocab, merges, model=unk, added_tokens=specials, normalizer={"type": "Strip", "strip_left": True, "strip_right": False},
                                               pre_tokenizer=metaspace("first"), decoder=metaspace("first"))
    yield "metaspace_first_after_split", document(vocab, merges, model=unk, added_tokens=specials,
                                                  pre_tokenizer=sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace("first")), decoder=metaspace("first"))
    yield "unk", document(vocab, merges, model=unk)
    yield "unk_fused", document(vocab, merges, model={**unk, "fuse_unk": True})
    prepend = sequence("normalizers", {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"})
    yield "prepend_normalized_specials", document(vocab, merges, model=unk, normalizer=prepend, decoder=sequence(
        "decoders", {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}),
        added_tokens=[("<unk>", {"special": True}), ("<s>", {"special": True, "normalized": True}), ("</s>", {"special": True, "normalized": False})])
    yield "decoder_regex_strip", document(vocab, merges, model=unk, decoder=sequence(
        "decoders", {"type": "Fuse"}, {"type": "Replace", "pattern": {"Regex": r"[aeiou]+"}, "content": "*"}, {"type": "Strip", "content": " ", "start": 2, "stop": 0}))


def byte_fallback():
    """Trains the Llama 2 kind: spaces as U+2581, whole lines as words, bytes for everything unknown."""
    byte_tokens = [f"<0x{b:02X}>" for b in range(256)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    ascii_only = [line for line in CORPUS.splitlines() if max(map(ord, line)) < 0x250]
    tokenizer.train_from_iterator(ascii_only, trainers.BpeTrainer(
        vocab_size=900, special_tokens=["<unk>", "<s>", "</s>"] + byte_tokens, show_progress=False))
    result = json.loads(tokenizer.to_str())
    result["added_tokens"] = [t for t in result["added_tokens"] if t["id"] < 3]
    result["decoder"] = sequence("decoders", {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                                 {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0})
    result["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    return result


def golden(tokenizer_json, texts):
    """ids: without special tokens. Where they differ: ids_special with them; ids_plain with specials in the text
    as ordinary text; decoded_skip without special tokens."""
    tokenizer = Tokenizer.from_str(json.dumps(tokenizer_json))
    entries = []
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = True
        ids_plain = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = False
        entry = {"text": text, "ids": ids, "ids_special": tokenizer.encode(text).ids, "ids_plain": ids_plain,
                 "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                 "decoded_skip": tokenizer.decode(ids, skip_special_tokens=True)}
        for key, same_as in [("ids_special", "ids"), ("ids_plain", "ids"), ("decoded_skip", "decoded")]:
            if entry[key] == entry[same_as]:
                del entry[key]
        entries.append(entry)
    return entries


def dump(path, value, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, **options) + "\n", encoding="utf-8")


def without_base(tokenizer, base):
    """Leaves out the vocabulary and merges that all tokenizers of one kind share."""
    shared = {"vocab": {token: i for i, token in enumerate(base[0])}, "merges": base[1]}
    model = {key: value for key, value in tokenizer["model"].items() if shared.get(key) != value}
    return {**tokenizer, "model": model}


def main():
    trained = byte_fallback()
    dump(DATA / "byte_fallback/tokenizer.json", trained, indent=1)
    entries = golden(trained, TEXTS + CORPUS.splitlines() + [CORPUS])
    # Byte runs that are no text: for the decoder alone.
    tokenizer = Tokenizer.from_str(json.dumps(trained))
    for ids in [[3 + 0xE4, 3 + 0xB8, 3 + 0xAD], [3 + 0xE4, 3 + 0xB8], [3 + 0xFF, 3 + 0x41, 300], [1, 3 + 0xC3, 300, 3 + 0xA9, 2]]:
        entries.append({"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False), "decoded_skip": tokenizer.decode(ids)})
    dump(DATA / "byte_fallback/golden.json", entries)

    bases = {"bytes": byte_level_model(), "chars": char_model()}
    cases = []
    for base, variants in [("bytes", byte_level_variants()), ("chars", char_variants())]:
        for name, tokenizer in variants:
            cases.append({"name": name, "base": base, "tokenizer": without_base(tokenizer, bases[base]), "golden": golden(tokenizer, TEXTS)})
            if name in SEED_NAMES:
                dump(SEEDS / f"{name}.json", tokenizer)
    dump(DATA / "synthetic.json", {"bases": {name: {"vocab": {t: i for i, t in enumerate(vocab)}, "merges": merges}
                                             for name, (vocab, merges) in bases.items()}, "cases": cases})


if __name__ == "__main__":
    main()
