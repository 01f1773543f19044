// Oniguruma's regular expressions (Ruby syntax, UTF-8) rewritten for PCRE2 (UTF, UCP, MULTILINE).
//
// Sources: Oniguruma 6.9 doc/RE and doc/UNICODE_PROPERTIES, pcre2pattern(3) of PCRE2 10.42. What differs:
//   \s \S     White_Space; PCRE2 adds U+180E          -> \p{White_Space}
//   \w \W     Alphabetic, M, Nd, Pc; PCRE2: L, N, _   -> the properties written out
//   \h \H     hexadecimal digit; PCRE2: blank         -> the characters written out
//   \v        vertical tab; PCRE2: any line break     -> \x0b
//   \uHHHH    not in PCRE2                            -> \x{HHHH}
//   \p{Han}   script; PCRE2 takes script extensions   -> \p{sc:Han}
//   ( )       captures, which nothing here reads      -> (?: )
//   (?i: )    folds ss, st, ff.. into one character; PCRE2 does not -> only ASCII without those pairs
//   (?i)      scopes over later alternatives          -> only at the start of the pattern
// Refused by name: nested classes and &&, POSIX brackets, \b, \G, \K, \R, \X, back references, named groups,
// other inline options, {,n}, {n}? and {n,m}+ (lazy or possessive in PCRE2 only), octal and raw bytes.
#pragma once

#include <string>
#include <string_view>

#include "io/tokenizer/json_place.h"

namespace switchyard {

std::string pcre2_syntax(std::string_view oniguruma_pattern, const JsonPlace& place);

}  // namespace switchyard
