#include "overlimit/decision_value.hpp"

#include <bit>
#include <cstdint>
#include <stdexcept>

namespace overlimit {
namespace {

constexpr std::uint8_t kVersion = 1;
// Far above every duration that a store computes, so that two of them can be added.
constexpr Micros kLongest = Micros{1} << 60;

// By whom a decision was made.
enum class Decider : std::uint8_t { store, local_fallback, nobody };
enum class Kind : std::uint8_t { whole_number, ratio, real, text };

[[noreturn]] void refuse(const std::string& reason) {
  throw std::invalid_argument("these bytes are not a pickled Decision: " + reason);
}

class Writer {
 public:
  void byte(std::size_t value) { bytes_ += static_cast<char>(value); }
  void number(std::int64_t value) {
    const auto bits = static_cast<std::uint64_t>(value);
    for (unsigned shift = 0; shift < 64; shift += 8) byte((bits >> shift) & 0xff);
  }
  void text(std::string_view value) {
    number(static_cast<std::int64_t>(value.size()));
    bytes_ += value;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  std::uint8_t byte() { return static_cast<std::uint8_t>(take(1).front()); }
  std::uint8_t byte(std::size_t least, std::size_t most, const char* what) {
    const std::uint8_t value = byte();
    if (value < least || value > most) refuse(std::string(what) + " is out of range");
    return value;
  }
  std::int64_t number() {
    std::uint64_t bits = 0;
    unsigned shift = 0;
    for (const char character : take(8)) {
      bits |= std::uint64_t{static_cast<unsigned char>(character)} << shift;
      shift += 8;
    }
    return static_cast<std::int64_t>(bits);
  }
  std::int64_t number(std::int64_t most, const char* what) {
    const std::int64_t value = number();
    if (value < 0 || value > most) refuse(std::string(what) + " is out of range");
    return value;
  }
  Micros duration(const char* what) {
    const Micros value = number();
    if (value != kNever && (value < 0 || value > kLongest)) refuse(std::string(what) + " is out of range");
    return value;
  }
  std::string text() { return std::string(take(static_cast<std::uint64_t>(number()))); }
  void end() const {
    if (!rest_.empty()) refuse("they go on after its end");
  }

 private:
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) refuse("they end too early");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::string_view rest_;
};

WholeNumber read_whole_number(Reader& reader) {
  std::string digits = reader.text();
  const std::string_view magnitude = std::string_view(digits).substr(digits.starts_with('-') ? 1 : 0);
  const bool is_canonical = magnitude == "0" ? digits == "0" : !magnitude.starts_with('0');
  if (magnitude.empty() || !is_canonical ||
      magnitude.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    refuse("a number has wrong digits");
  }
  return {std::move(digits)};
}

Ratio read_ratio(Reader& reader) {
  WholeNumber numerator = read_whole_number(reader);
  WholeNumber denominator = read_whole_number(reader);
  if (denominator.digits == "0" || denominator.digits.starts_with('-'))
    refuse("a denominator is not above 0");
  return {std::move(numerator), std::move(denominator)};
}

void write(Writer& writer, const Argument& argument) {
  writer.byte(argument.index());
  if (const auto* whole = std::get_if<WholeNumber>(&argument)) writer.text(whole->digits);
  if (const auto* ratio = std::get_if<Ratio>(&argument)) {
    writer.text(ratio->numerator.digits);
    writer.text(ratio->denominator.digits);
  }
  if (const auto* real = std::get_if<double>(&argument)) writer.number(std::bit_cast<std::int64_t>(*real));
  if (const auto* text = std::get_if<std::string>(&argument)) writer.text(*text);
}

Argument read_argument(Reader& reader) {
  switch (Kind(reader.byte(0, std::variant_size_v<Argument> - 1, "the kind of an argument"))) {
    case Kind::whole_number:
      return read_whole_number(reader);
    case Kind::ratio:
      return read_ratio(reader);
    case Kind::real:
      return std::bit_cast<double>(reader.number());
    case Kind::text:
      break;
  }
  return reader.text();
}

void write(Writer& writer, const LimitValue& limit) {
  writer.text(limit.algorithm);
  writer.byte(limit.positional.size());
  for (const Argument& argument : limit.positional) write(writer, argument);
  writer.byte(limit.named.size());
  for (const auto& [name, argument] : limit.named) {
    writer.text(name);
    write(writer, argument);
  }
}

LimitValue read_limit(Reader& reader) {
  LimitValue limit{reader.text(), {}, {}};
  for (std::size_t left = reader.byte(); left > 0; --left) limit.positional.push_back(read_argument(reader));
  for (std::size_t left = reader.byte(); left > 0; --left) {
    std::string name = reader.text();
    limit.named.emplace_back(std::move(name), read_argument(reader));
  }
  return limit;
}

void write(Writer& writer, const PolicyValue& policy) {
  writer.byte(policy.name.has_value() ? 1 : 0);
  if (policy.name) writer.text(*policy.name);
  writer.byte(policy.limits.size());
  for (const LimitValue& limit : policy.limits) write(writer, limit);
}

PolicyValue read_policy(Reader& reader) {
  PolicyValue policy;
  if (reader.byte(0, 1, "whether a policy has a name") == 1) policy.name = reader.text();
  for (std::size_t left = reader.byte(1, CompiledPolicy::kMaxLimits, "the number of limits"); left > 0;
       --left) {
    policy.limits.push_back(read_limit(reader));
  }
  return policy;
}

void write(Writer& writer, const SubjectValue& subject) {
  writer.byte(subject.policy);
  writer.byte(subject.is_text ? 1 : 0);
  writer.text(subject.identifier);
  writer.number(subject.cost);
  writer.byte(std::size_t(subject.role));
}

SubjectValue read_subject(Reader& reader, std::size_t policies) {
  SubjectValue subject{};
  subject.policy = reader.byte(0, policies - 1, "the policy of an identifier");
  subject.is_text = reader.byte(0, 1, "whether an identifier is text") == 1;
  subject.identifier = reader.text();
  if (subject.identifier.empty()) refuse("an identifier is empty");
  subject.cost = reader.number(kExact, "a cost");
  subject.role = Role(reader.byte(0, std::size_t(Role::on_refusal), "a role"));
  return subject;
}

void write(Writer& writer, const RowValue& row) {
  writer.byte(std::size_t(row.status));
  for (const std::int64_t number : {row.remaining, row.retry_after, row.reset_after, row.delay}) {
    writer.number(number);
  }
}

RowValue read_row(Reader& reader) {
  RowValue row{};
  row.status = Status(reader.byte(0, std::size_t(Status::never), "a status"));
  row.remaining = reader.number(kLongest, "what remains");
  row.retry_after = reader.duration("a retry_after");
  row.reset_after = reader.duration("a reset_after");
  row.delay = reader.number(kLongest, "a delay");
  return row;
}

void write(Writer& writer, const DecidedValue& decided) {
  writer.byte(decided.policies.size());
  for (const PolicyValue& policy : decided.policies) write(writer, policy);
  writer.byte(decided.subjects.size());
  for (const SubjectValue& subject : decided.subjects) write(writer, subject);
  for (const RowValue& row : decided.rows) write(writer, row);
}

DecidedValue read_decided(Reader& reader, bool is_local) {
  DecidedValue decided{is_local, {}, {}, {}};
  for (std::size_t left = reader.byte(1, kMaxCharges, "the number of policies"); left > 0; --left) {
    decided.policies.push_back(read_policy(reader));
  }
  std::size_t rows = 0;
  for (std::size_t left = reader.byte(1, kMaxCharges, "the number of identifiers"); left > 0; --left) {
    decided.subjects.push_back(read_subject(reader, decided.policies.size()));
    rows += decided.policies[decided.subjects.back().policy].limits.size();
  }
  for (; rows > 0; --rows) decided.rows.push_back(read_row(reader));
  return decided;
}

void write(Writer& writer, const UndecidedValue& undecided) {
  writer.byte(std::size_t(undecided.status));
  writer.number(undecided.retry_after);
}

UndecidedValue read_undecided(Reader& reader) {
  const auto status = Status(reader.byte(0, std::size_t(Status::over), "a status"));
  return {status, reader.duration("a retry_after")};
}

Decider decider_of(const DecisionValue& decision) {
  const auto* decided = std::get_if<DecidedValue>(&decision.answer);
  if (decided == nullptr) return Decider::nobody;
  return decided->is_local ? Decider::local_fallback : Decider::store;
}

}  // namespace

std::string encode(const DecisionValue& decision) {
  Writer writer;
  writer.byte(kVersion);
  writer.number(decision.time);
  writer.text(decision.cost.digits);
  writer.byte(std::size_t(decider_of(decision)));
  std::visit([&](const auto& answer) { write(writer, answer); }, decision.answer);
  return writer.take();
}

DecisionValue decode_decision(std::string_view bytes) {
  Reader reader(bytes);
  if (const std::uint8_t version = reader.byte(); version != kVersion) {
    refuse("they have format " + std::to_string(version) + ", and this version of overlimit reads format " +
           std::to_string(kVersion));
  }
  DecisionValue decision{reader.number(kMaxTime - 1, "the time"), read_whole_number(reader), {}};
  if (decision.cost.digits.starts_with('-')) refuse("the cost is negative");
  const auto decider = Decider(reader.byte(0, std::size_t(Decider::nobody), "who decided"));
  if (decider == Decider::nobody) {
    decision.answer = read_undecided(reader);
  } else {
    decision.answer = read_decided(reader, decider == Decider::local_fallback);
  }
  reader.end();
  return decision;
}

}  // namespace overlimit
