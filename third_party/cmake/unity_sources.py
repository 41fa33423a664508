# Joins source files into fewer, larger ones, which compile several times
# faster: what costs is the headers, and the templates made again in each file.
#
#   unity_sources.py ROOT OUTPUT FILE...
#
# writes OUTPUT/FOLDER_N.cc, each of which includes some files of one folder,
# and prints what is to be compiled: these, and the files that stay alone. The
# result depends on the files' text alone; a joined file whose content stays
# the same is not written again.
#
# Names that a file defines for itself (in a namespace without a name, or as a
# type, alias, constant or static function of a source file) must not meet the
# same name in another file of the group, or in a header that the other one
# includes: it could be defined twice, be ambiguous, or pick another overload.
# Where it does, the name is renamed by a macro, as long as its file uses it
# for nothing else; else the two files are kept apart. Names are found by
# reading tokens, not by compiling, and rather too many than too few. A file
# that is not understood, or has conditions or macros, stays alone.
import os
import re
import sys

MOST_FILES = 12
MOST_BYTES = 120_000

TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/'                          # comments
    r'|(?:u8|[uUL])?R"([^()\\\s]*)\(.*?\)\1"'      # raw strings
    r'|(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*"'           # strings
    r"|(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+'"           # characters
    r"|\.?\d(?:[\w.]|'\w|[eEpP][+-])*"             # numbers
    r'|^[ \t]*\#(?:[^\n\\]|\\.)*'                  # directives
    r'|[A-Za-z_]\w*|::|->|\S', re.S | re.M)
NAME = re.compile(r'[A-Za-z_]\w*$')
WORDS = set('''alignas auto bool char class const consteval constexpr constinit
decltype double else enum explicit extern float for friend if inline int long
mutable namespace noexcept operator private protected public requires return
short signed static static_assert struct template thread_local typename union
unsigned using virtual void volatile while'''.split())


class Doubt(Exception):
    """The file is not understood; it is compiled alone."""


def tokens_of(text):
    """Names and punctuation; strings and numbers become `0`."""
    tokens, directives = [], []
    for match in TOKEN.finditer(text):
        token = match.group()
        if token.startswith(('//', '/*')):
            continue
        if token.lstrip().startswith('#') and token.strip() != '#':
            directives.append(token.strip())
        elif NAME.match(token) or token in ('::', '->'):
            tokens.append(token)
        elif token[0] in '"\'' or token[0].isalnum() or len(token) > 1:
            tokens.append('0')
        else:
            tokens.append(token)
    return tokens, directives


def closing(tokens, at):
    """The place of the bracket that closes the one at `at`."""
    pairs = {'(': ')', '[': ']', '{': '}'}
    stack = []
    for i in range(at, len(tokens)):
        token = tokens[i]
        if token in pairs:
            stack.append(pairs[token])
        elif token in (')', ']', '}'):
            if not stack or stack.pop() != token:
                raise Doubt('brackets')
            if not stack:
                return i
    raise Doubt('brackets')


class Names:
    """What is declared at file scope."""

    def __init__(self):
        self.inside = {}       # namespace -> what is declared in it
        self.own = set()       # what other files cannot see
        self.external = set()  # of `extern X b;`: b
        self.aliases = {}      # of `using a::b;`: b -> the whole
        self.spaces = set()    # the namespaces that are opened

    def add(self, name, own, space):
        self.inside.setdefault(space, set()).add(name)
        if own:
            self.own.add(name)


def outline(tokens, at, end, space, named, found):
    """Adds to `found` what is declared in tokens[at:end], which is in the
    namespace `space`, and in one without a name if not `named`."""
    while at < end:
        token = tokens[at]
        if token == ';':
            at += 1
            continue
        if token == 'namespace' or tokens[at:at + 2] == ['inline', 'namespace']:
            start = at
            while tokens[at] not in ('{', ';', '='):
                at += 1
            if tokens[at] == '{':
                last = closing(tokens, at)
                inner = ''.join(tokens[start + 1:at])
                whole = '::'.join(part for part in (space, inner) if part)
                parts = whole.split('::')
                for n in range(len(parts)):
                    found.spaces.add('::'.join(parts[:n + 1]))
                outline(tokens, at + 1, last, whole, named and inner != '',
                        found)
                at = last + 1
                continue
            found.aliases[tokens[start + 1]] = ' '.join(tokens[start:at])
            while tokens[at] != ';':
                at += 1
            continue
        # One declaration: to its `;`, or its body's `}`.
        start, valued = at, False
        while at < end and tokens[at] != ';':
            if tokens[at] in '([':
                at = closing(tokens, at)
            elif tokens[at] == '=':
                valued = valued or tokens[at - 1] != 'operator'
            elif tokens[at] == '{':
                at = closing(tokens, at)
                # A function's body ends here; not the value of a variable,
                # nor that of a member before the constructor's body.
                if (tokens[start] not in TYPES and not valued
                        and tokens[at + 1:at + 2] not in ([';'], [','], ['{'])):
                    break
            elif tokens[at] == '}':
                raise Doubt('brackets')
            at += 1
        declared(tokens[start:at], space, named, found)
        at += 1


TYPES = ('struct', 'class', 'enum', 'union')


def without_template(tokens):
    while tokens[:1] == ['template']:
        depth = 0
        for i, token in enumerate(tokens[1:], 1):
            depth += (token == '<') - (token == '>')
            if depth == 0:
                break
        else:
            raise Doubt('template')
        tokens = tokens[i + 1:]
    return tokens


def declared(tokens, space, named, found):
    tokens = without_template(tokens)
    if tokens[:1] == ['extern']:
        found.external.add(tokens[-1])
        found.add(tokens[-1], False, space)
        return
    if not tokens or tokens[0] in ('static_assert', 'TEST_CASE'):
        return
    if 'operator' in tokens[:tokens.index('{') if '{' in tokens else None]:
        # No name; a second operator of one type shows in the types' names.
        return
    if tokens[0] == 'using':
        if tokens[1] == 'namespace':
            raise Doubt('using namespace')
        if '=' in tokens:
            found.add(tokens[1], True, space)
        else:
            found.aliases[tokens[-1]] = ' '.join(tokens)
        return
    if tokens[0] in TYPES:
        stop = next((i for i, t in enumerate(tokens) if t in ('{', ':')),
                    len(tokens))
        names = [t for t in tokens[1:stop] if NAME.match(t) and t not in WORDS
                 and t != 'final']
        if not names:
            raise Doubt('a type without a name')
        for name in names:  # more than one in `struct X f();`
            found.add(name, True, space)
        if '{' in tokens:
            last = closing(tokens, tokens.index('{'))
            plain = tokens[0] == 'enum' and 'class' not in tokens[:2]
            for token in tokens[stop if plain else last:]:
                if NAME.match(token):
                    found.add(token, True, space)
        return
    # A function or a variable: the last name before its first `(`, `{`, `=`,
    # `[` outside of template arguments.
    depth, name, qualified, stop = 0, None, False, ''
    for i, token in enumerate(tokens):
        if token == '<':
            depth += 1
        elif token == '>':
            depth -= 1
        elif depth == 0:
            if token in '({=[:':
                if token == '[' and tokens[i + 1:i + 2] == ['[']:
                    continue
                if name is not None:
                    stop = token
                    break
            elif NAME.match(token) and token not in WORDS:
                name = token
                qualified = i > 0 and tokens[i - 1] == '::'
    if name is None:
        raise Doubt('a declaration without a name')
    own = (not named or tokens[0] in ('static', 'constexpr', 'inline')
           or tokens[0] == 'const' and stop != '(')
    found.add(name, own and not qualified, space)


class Source:
    def __init__(self, root, path):
        with open(os.path.join(root, path), encoding='utf-8') as file:
            text = file.read()
        self.path, self.size = path, len(text)
        self.seen, self.inner, self.outer = set(), set(), set()
        tokens, directives = tokens_of(text)
        self.includes, self.include_lines = [], []
        self.alone = self.odd = False
        for directive in directives:
            match = re.match(r'#\s*include\s*"([^"]+)"', directive)
            if match:
                self.includes.append(match.group(1))
            elif not re.match(r'#\s*(include\s*<|pragma once)', directive):
                self.alone = True
                continue
            self.include_lines.append(directive)
        self.names = Names()
        try:
            outline(tokens, 0, len(tokens), '', True, self.names)
        except (Doubt, IndexError):
            self.alone = self.odd = True
        inner = {part for space in self.names.spaces
                 for part in space.split('::')}
        # A name behind `.`, `->` or `X::` does not mean one at file scope; but
        # a macro would rename it too.
        self.used, self.members = set(), set()
        for i, token in enumerate(tokens):
            if not NAME.match(token) or token in WORDS:
                continue
            before = tokens[max(i - 2, 0):i]
            apart = before[-1:] in (['.'], ['->'], ['::'])
            if inner & set(before[:1]) or not apart:
                self.used.add(token)
            if apart:
                self.members.add(token)

    def see(self, header):
        """Adds what an included header declares where this file's code is."""
        inner = max(self.names.spaces, key=len, default='')
        for space in self.names.spaces | {''}:
            names = header.names.inside.get(space, set())
            self.seen |= names
            if space == inner:
                self.inner |= names
            else:
                self.outer |= names


def headers_of(root, path, source, cache):
    """The project's headers that a file includes, also through others."""
    todo, seen = [(path, source)], {}
    while todo:
        here, source = todo.pop()
        for name in source.includes:
            for base in ('src', '.', os.path.dirname(here)):
                header = os.path.normpath(os.path.join(base, name))
                if os.path.exists(os.path.join(root, header)):
                    break
            else:
                raise Doubt(name)
            if header not in cache:
                cache[header] = Source(root, header)
            if cache[header].odd:
                raise Doubt(header)
            if header not in seen:
                seen[header] = cache[header]
                todo.append((header, cache[header]))
    return seen.values()


# Other libraries find these by their name alone.
FOUND_BY_NAME = {'main', 'showValue', 'toString', 'to_string', 'begin', 'end',
                 'swap', 'hash'}


def fixed(source):
    """Those of its own names that a macro must not rename."""
    return source.names.own & (source.members | source.seen | FOUND_BY_NAME)


def clashes(source, other):
    """Whether a name of `source` has another meaning in `other`."""
    for name, whole in source.names.aliases.items():
        if (name in other.used or name in other.seen) and (
                other.names.aliases.get(name) != whole):
            return True
    # A header that only `source` includes hides a name of an outer namespace.
    hidden = (source.inner - other.inner) & other.outer & other.used
    return bool(hidden) or not fixed(source).isdisjoint(other.used | other.seen)


class Group:
    def __init__(self):
        self.sources, self.size = [], 0

    def takes(self, source):
        return (len(self.sources) < MOST_FILES
                and self.size + source.size <= MOST_BYTES
                and all(source.names.spaces == other.names.spaces
                        for other in self.sources)
                and not any(clashes(source, other) or clashes(other, source)
                            for other in self.sources))

    def add(self, source):
        self.sources.append(source)
        self.size += source.size

    def text(self, root):
        lines = ['// Made by unity_sources.py.']
        # All headers come before any macro.
        for line in dict.fromkeys(line for source in self.sources
                                  for line in source.include_lines):
            lines.append(line)
        for number, source in enumerate(self.sources):
            others = set()
            for other in self.sources:
                if other is not source:
                    others |= other.used | other.seen
            renamed = sorted(source.names.own & others)
            lines.append('')
            lines += [f'#define {name} {name}_of_{number}' for name in renamed]
            lines.append(f'#include "{os.path.join(root, source.path)}"')
            lines += [f'#undef {name}' for name in renamed]
        return '\n'.join(lines) + '\n'


def write_if_new(path, text):
    if os.path.exists(path):
        with open(path, encoding='utf-8') as file:
            if file.read() == text:
                return
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def main():
    root, output = sys.argv[1:3]
    os.makedirs(output, exist_ok=True)
    cache, folders = {}, {}
    for path in sorted(os.path.relpath(path, root) for path in sys.argv[3:]):
        source = Source(root, path)
        folder = folders.setdefault(os.path.dirname(path), [])
        try:
            for header in headers_of(root, path, source, cache):
                source.names.own -= header.names.external
                source.see(header)
        except Doubt:
            source.alone = True
        group = next((group for group in folder
                      if not source.alone and group.takes(source)), None)
        if group is None:
            group = Group()
            if source.alone:
                group.size = MOST_BYTES
            folder.append(group)
        group.add(source)
    for folder, groups in folders.items():
        for number, group in enumerate(groups):
            path = os.path.join(root, group.sources[0].path)
            if len(group.sources) > 1:
                name = f'{folder.replace("/", "_")}_{number}.cc'
                path = os.path.join(output, name)
                write_if_new(path, group.text(root))
            print(path)


main()
