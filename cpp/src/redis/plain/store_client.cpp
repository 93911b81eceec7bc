#include "redis/plain/store_client.hpp"

#include "redis/plain/batch.hpp"

namespace overlimit::redis {
namespace {

using protocol::Reply;

/// What goes in front of decisions: it is sent once.
class ReleasesInFront {
 public:
  ReleasesInFront(StoreClient& store, std::span<Exchange* const> before) {
    if (!before.front()->deciding()) return;
    store.for_each_observer([&](Observer& each) { each.add_releases(store, releases_); });
    for (const auto& each : releases_) {
      each->prepare();
      for (Exchange* const later : before) later->comes_after(each->keys());
    }
    before.front()->basis().commands += std::uint32_t(releases_.size());
  }

  [[nodiscard]] bool empty() const { return releases_.empty(); }
  [[nodiscard]] std::size_t size() const { return releases_.size(); }
  void add_to(Batch& batch) const {
    for (const auto& each : releases_)
      batch.add(each->script(), each->is_sent_with_text() ? Batch::By::text : Batch::By::name);
  }
  void take(Batch& batch) {
    for (std::size_t i = 0; i < releases_.size(); ++i) releases_[i]->arrived(batch.received(i));
  }

 private:
  std::vector<std::unique_ptr<Exchange>> releases_;
};

}  // namespace

StoreClient::StoreClient(Location location, KeyNaming keys, Duration timeout)
    : naming_(std::move(keys)), servers_(std::move(location), timeout), keyspace_([this] {
        return std::make_unique<std::shared_ptr<Keyspace>>(Keyspace::of(servers_.location(), naming_));
      }) {}

void StoreClient::add(Layer& layer, std::optional<Observer::Keeps> what) {
  layers_.push_back(&layer);
  top_ = &layer;
  if (what) keepers_[std::size_t(*what)] = &layer;
}

StoreClient::Changes StoreClient::announce(const Change& change) {
  Changes changes;
  for_each_observer([&](Observer& each) {
    if (std::unique_ptr<Observation> observation = each.observe_change(change))
      changes.push_back(std::move(observation));
  });
  return changes;
}

// Until its reply counts. What a reply that does not count says was charged is undone before.
void StoreClient::run(Exchange& exchange, const Wait& wait) {
  Exchange* const one = &exchange;
  for (;;) {
    for (Layer* const layer : layers_) layer->precede({&one, 1}, wait);
    exchange.prepare();
    if (exchange.accepts(ask(exchange, wait))) return;
    const std::optional<ScriptCall> refund = exchange.undoing();
    if (!refund) continue;
    for (Layer* const layer : layers_) layer->undo({&*refund, 1}, exchange.basis(), wait);
  }
}

// What goes in front of it is not sent again; the script is, if it was not executed.
Reply StoreClient::ask(Exchange& exchange, const Wait& wait) {
  ++exchange.basis().commands;
  Exchange* const one = &exchange;
  try {
    ReleasesInFront before(*this, {&one, 1});
    if (before.empty()) return servers_.run(exchange.script(), wait);
    Batch batch(servers_);
    before.add_to(batch);
    batch.add(exchange.script(), Batch::By::name);
    batch.run(wait);
    before.take(batch);
    if (!batch.received(before.size())) batch.failure().raise_if_any();
    return batch.reply(before.size(), wait);
  } catch (const StoreError& error) {
    if (error.maybe_charged()) exchange.lost();
    throw;
  }
}

FirstError StoreClient::run(std::span<Exchange* const> exchanges, const Wait& wait) {
  FirstError failure;
  std::vector<Exchange*> left(exchanges.begin(), exchanges.end());
  while (!left.empty() && !failure) left = ask(left, failure, wait);
  return failure;
}

// What was answered counts, whatever happens to the others. Returns those whose replies do not; what these
// say was charged is undone then.
std::vector<Exchange*> StoreClient::ask(std::span<Exchange* const> exchanges, FirstError& failure,
                                        const Wait& wait) {
  for (Layer* const layer : layers_) layer->precede(exchanges, wait);
  for (Exchange* const each : exchanges) {
    each->prepare();
    ++each->basis().commands;
  }
  ReleasesInFront before(*this, exchanges);
  Batch batch(servers_);
  before.add_to(batch);
  for (Exchange* const each : exchanges) batch.add(each->script(), Batch::By::in_order);
  batch.run(wait);
  before.take(batch);
  failure = batch.failure();
  std::vector<Exchange*> again;
  std::vector<ScriptCall> refunds;
  for (std::size_t k = 0; k < exchanges.size(); ++k) {
    Exchange& each = *exchanges[k];
    const std::size_t i = before.size() + k;
    each.was_redirected = batch.was_redirected(i);
    try {
      if (!batch.received(i)) {
        if (batch.failure().maybe_charged()) each.lost();
        continue;
      }
      if (each.accepts(batch.reply(i, wait))) continue;
      again.push_back(&each);
      if (std::optional<ScriptCall> refund = each.undoing()) refunds.push_back(*std::move(refund));
    } catch (const StoreError& error) {
      if (error.maybe_charged()) each.lost();
      failure.note();
    } catch (...) {
      failure.note();
    }
  }
  try {
    for (Layer* const layer : layers_)
      if (!refunds.empty()) layer->undo(refunds, again.front()->basis(), wait);
  } catch (...) {
    failure.note();
  }
  return again;
}

// The first goes with its text, as the others mostly come to the same server; one that lacks it is asked
// again.
std::vector<Reply> StoreClient::replies_to(std::span<const ScriptCall* const> scripts, const Wait& wait) {
  std::vector<Reply> replies;
  if (scripts.size() == 1) {
    replies.push_back(servers_.run(*scripts.front(), wait));
    return replies;
  }
  Batch batch(servers_);
  for (const ScriptCall* const each : scripts)
    batch.add(*each, batch.size() == 0 ? Batch::By::text : Batch::By::name);
  batch.run(wait);
  batch.failure().raise_if_any();
  for (std::size_t i = 0; i < scripts.size(); ++i) replies.push_back(batch.reply(i, wait));
  return replies;
}

}  // namespace overlimit::redis
