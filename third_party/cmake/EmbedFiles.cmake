# Writes OUTPUT, a C++ file with the text of every file in FILES (below ROOT).
# Texts become raw string literals in pieces: compilers cap a literal's length.
set(content "// Made from rules/ by EmbedFiles.cmake.\n#include \"io/load.h\"\n\nnamespace shardplan {\nnamespace {\nconstexpr ShippedFile kFiles[] = {\n")
set(count 0)
foreach(file IN LISTS FILES)
  file(READ "${ROOT}/${file}" text)
  string(APPEND content "    {\"${file}\", R\"shipped(${text})shipped\"},\n")
  math(EXPR count "${count} + 1")
endforeach()
if(count EQUAL 0)
  string(APPEND content "    {\"\", \"\"},\n")
endif()
string(APPEND content "};\n}  // namespace\n\nstd::span<const ShippedFile> shipped_files() { return {kFiles, ${count}}; }\n\n}  // namespace shardplan\n")
file(WRITE "${OUTPUT}" "${content}")
