#include "redis/wire/answer.hpp"

#include "overlimit/pair.hpp"
#include "redis/wire/script_call.hpp"
#include "values/call_on_values.hpp"

namespace overlimit::redis {

using values::CallOnValues;
using values::FoundKey;
using values::header_at;
using values::int64_at;
using values::record_at;
using values::RecordAt;
namespace {

bool writes_every_charge(const Call& call) {
  return may_charge(call) && std::ranges::all_of(call.charges, [](const Charge& charge) {
           return cost_of(charge) > 0 && charge.role != Role::always;
         });
}

// A number that Lua can have packed.
std::int64_t exact(std::int64_t number) {
  if (number < 0 || number >= kExact) not_ours();
  return number;
}

// Reads what was charged to a key from `at` on: when it was created, and its limits' records, with their
// cells or without. Returns the offset behind the last. A damaged value may have any time of creation, which
// is passed on unchanged.
std::size_t read_charged(const Charge& charge, std::string_view bytes, std::size_t at, bool have_cells,
                         Instant now, const Rows& rows) {
  if (at + RecordAt::kBegin > bytes.size()) not_ours();
  const Instant created_at(int64_at(bytes, at));
  at += RecordAt::kBegin;
  for (std::size_t row = 0; row < charge.policy->size(); ++row) {
    const CompiledLimit& each = charge.policy->limits()[row];
    const std::optional<RecordAt> record = record_at(bytes, at);
    if (!record || record->tag != each.tag || record->state + sizeof(Header) > bytes.size()) not_ours();
    const Header header = header_at(bytes, record->state);
    for (const std::int64_t number : header) exact(number);
    fill_charged(each.limit, header, now, created_at, rows, row);
    if (record->cells() > 1) {
      const Instant expires_at(exact(record->expires_at.micros()));
      show_holds(each.limit, record->cells(), expires_at, header, now, rows, row);
    }
    // Nothing is charged on a record that has expired, or at a time that no clock can read.
    if (rows.reset_after[row] < Duration{} || rows.delay[row] < Duration{}) not_ours();
    at = have_cells ? record->end() : record->state + sizeof(Header);
  }
  return at;
}

// That everything was charged. Behind a policy's records a value has others.
void read_all_charged(const Call& call, const ScriptReply& reply, const Rows& rows) {
  const bool are_values = reply.has(ReplyFlags::kValues);
  std::size_t at = 0;
  std::size_t row = 0;
  for (std::size_t k = 0; k < call.charges.size(); ++k) {
    const Charge& charge = call.charges[k];
    const std::string_view bytes = are_values ? reply.values()[k] : reply.charged();
    const Rows own = rows_of(rows, row, charge.policy->size());
    const std::size_t end = read_charged(charge, bytes, are_values ? 0 : at, are_values, reply.now(), own);
    if (end > bytes.size()) not_ours();
    at = end;
    row += own.count;
  }
  if (!are_values && at != reply.charged().size()) not_ours();
}

// Values as they were found, and when the keys were created if some were written after that.
Answer read_found(const Call& call, const ScriptReply& reply, const Rows& rows) {
  Answer read{reply.now(), reply.has(ReplyFlags::kWritten), {}};
  std::vector<Instant> creations;
  for (const std::int64_t each : reply.creations()) creations.emplace_back(each);
  for (const std::string_view each : reply.found()) read.found.emplace_back(each);
  std::vector<FoundKey> keys;
  for (const Value& value : read.found) keys.push_back({&value, read.now});
  const CallOnValues found(call, keys);
  // The script and the engine have reached the same resolution, or one of them is wrong.
  if (found.writes() != read.is_written) not_ours();
  found.show(creations, rows);
  return read;
}

}  // namespace

Answer read_answer(DatedCall& call, const ScriptReply& reply, const Rows& rows) {
  if (reply.is_empty()) not_ours();
  call.move_to(reply.now());
  if (reply.has(ReplyFlags::kFound)) return read_found(*call, reply, rows);
  if (!reply.has(ReplyFlags::kCharged) || !writes_every_charge(*call)) not_ours();
  read_all_charged(*call, reply, rows);
  return {reply.now(), true, {}};
}

}  // namespace overlimit::redis
