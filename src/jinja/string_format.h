// '...' % values and '...'.format(values): the plain forms.
#pragma once

#include "jinja/arguments.h"

namespace switchyard::jinja {

// %s, %r, %d, %i, %x, %X, %o, %f, %e, %g with width, precision and the flags - + 0 and space; %(name)s with a
// dict.
Text percent_format(Runtime& runtime, const Text& format, const Value& values);

// {}, {0}, {name} and {{ }}; conversions, attributes and format specifications are refused.
Text brace_format(Runtime& runtime, const Text& format, const Arguments& arguments);

}  // namespace switchyard::jinja
