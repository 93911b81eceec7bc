#include "redis/wire/script.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "lua_fragments.hpp"
#include "overlimit/algorithms/registry.hpp"
#include "values/digests.hpp"

namespace overlimit::redis {

using values::sha1_hex;
namespace {

template <std::size_t... Index>
std::vector<std::string> names_of(std::index_sequence<Index...>) {
  return {std::string(std::variant_alternative_t<Index, Algorithm>::kName)...};
}

// The names of all algorithms. The first has number 1 in a call's arguments (CompiledPolicy::packed).
std::vector<std::string> algorithms() {
  return names_of(std::make_index_sequence<std::variant_size_v<Algorithm>>());
}

std::string_view file(std::string_view stem) {
  for (const auto& [name, text] : kLuaFragments) {
    if (name == stem) return text;
  }
  throw std::logic_error("lua/ has no fragment '" + std::string(stem) + "'");
}

// An algorithm's file begins with its step and ends with its refund and its merge function, which other files
// lack.
std::size_t function_begins(std::string_view stem, const std::string& name) {
  return file(stem).find("\nlocal function " + std::string(stem) + name + "(");
}
std::size_t refund_begins(std::string_view stem) { return function_begins(stem, "_refund"); }
std::size_t merge_begins(std::string_view stem) { return function_begins(stem, "_merged"); }

// The steps of all algorithms, of which that of the limit's algorithm is taken.
std::string steps() {
  std::string text;
  std::size_t number = 0;
  for (const std::string& name : algorithms()) {
    text += number == 0 ? "if" : "elseif";
    text += " algorithm == " + std::to_string(++number) + " then\n  --[[ " + name + " ]]\n";
  }
  return text + "end\n";
}

// The functions of all algorithms that end like this, and the table of them.
std::string functions(const std::string& ending, const auto& text_of) {
  std::string text;
  std::string table;
  for (const std::string& name : algorithms()) {
    text.append(text_of(name)).append(1, '\n');
    table.append(table.empty() ? "" : ", ").append(name).append(ending);
  }
  return text + "local " + ending.substr(1) + "_of = {" + table + "}\n";
}

std::string refunds() {
  return functions("_refund", [](const std::string& name) {
    const std::size_t begin = refund_begins(name) + 1;
    return file(name).substr(begin, merge_begins(name) - begin);
  });
}

std::string merges() {
  return functions("_merged",
                   [](const std::string& name) { return file(name).substr(merge_begins(name) + 1); });
}

// What stands for a line --[[ name ]].
std::string text_for(std::string_view name) {
  if (name == "steps") return steps();
  if (name == "refunds") return refunds();
  if (name == "merges") return merges();
  return std::string(file(name).substr(0, refund_begins(name)));
}

// The name in a line --[[ name ]]; nothing for any other line.
std::string_view name_in(std::string_view line) {
  constexpr std::string_view kOpen = "--[[ ";
  constexpr std::string_view kClose = " ]]\n";
  if (!line.starts_with(kOpen) || !line.ends_with(kClose)) return {};
  return line.substr(kOpen.size(), line.size() - kOpen.size() - kClose.size());
}

// Appends a text, and in place of each line --[[ name ]] the fragment of that name, indented like the line.
// It is pasted and not called, because every function costs a call something, even one that is not called.
void paste(std::string& script, std::string_view text, const std::string& indentation = "") {
  for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
    end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::size_t first = std::min(text.find_first_not_of(' ', at), end);
    const std::string_view line = text.substr(first, end - first);
    const std::string margin = indentation + std::string(text.substr(at, first - at));
    const std::string_view name = name_in(line);
    if (name.empty()) {
      script += line == "\n" ? "\n" : margin + std::string(line);
    } else {
      paste(script, text_for(name), margin);
    }
  }
}

std::string script_text(std::string_view stem) {
  std::string script;
  paste(script, file(stem));
  return script;
}

}  // namespace

Script::Script(std::string text) : text_(std::move(text)), sha1_(sha1_hex(text_)) {}

Scripts::Scripts()
    : decide_one(script_text("decide_one")),
      decide_several(script_text("decide_several")),
      read(script_text("read")),
      refund(script_text("refund")),
      lock(script_text("lock")),
      lease(script_text("lease")),
      restore(script_text("restore")) {}

}  // namespace overlimit::redis
