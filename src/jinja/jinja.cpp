// The template engine.
