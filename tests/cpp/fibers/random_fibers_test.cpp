// Fibers that do anything in any order, compared with a model of what each waits for.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "../descriptors.hpp"
#include "../examples.hpp"
#include "loop.hpp"
#include "overlimit/fibers.hpp"

namespace overlimit {
namespace {

using namespace std::chrono_literals;
using namespace testing;
using Woken = Fibers::Woken;

constexpr std::size_t kDescriptors = 4;
constexpr std::size_t kEvents = 3;

/// What a fiber waits for, and whether that has come. A wait for a descriptor may end without it.
struct Model {
  std::optional<std::size_t> descriptor;
  std::optional<std::size_t> event;
  std::uint32_t waiters = 0;
  bool is_interrupted = false;
  bool must_go_on = false;
};

class Life {
 public:
  explicit Life(unsigned seed) : random_(seed) {}

  void step() {
    switch (draw(6)) {
      case 0:
        return make_ready(draw(kDescriptors));
      case 1:
      case 2:
        return notify(draw(kEvents), static_cast<std::uint32_t>(1 + draw(7)));
      case 3:
        return interrupt();
      default:
        return start();
    }
  }

  void end() {
    for (auto& [number, model] : models_) interrupted(model);
    fibers_.reset();
    EXPECT_TRUE(models_.empty());
    EXPECT_EQ(ended_, started_);
  }

  [[nodiscard]] int woken(Woken by) const { return woken_.at(static_cast<std::size_t>(by)); }

 private:
  std::size_t draw(std::size_t below) {
    return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_);
  }

  void start() {
    const int number = started_++;
    models_[number] = {};
    Fibers::Task& task = fibers_->start([this, number, &fibers = *fibers_, waits = draw(5)] {
      for (std::size_t i = 0; i < waits; ++i) wait_somehow(fibers, models_[number]);
      models_.erase(number);
      tasks_.erase(number);
      ++ended_;
    });
    if (models_.contains(number)) tasks_[number] = &task;
  }

  /// On a fiber.
  void wait_somehow(Fibers& fibers, Model& model) {
    const auto until = std::chrono::steady_clock::now() + 1h;
    Woken woken{};
    if (draw(2) == 0) {
      const int fd = descriptors_.at(model.descriptor.emplace(draw(kDescriptors))).fd();
      model.must_go_on = model.is_interrupted || becomes_readable(fd, 0);
      woken = fibers.wait(fd, POLLIN, until);
    } else {
      const void* const event = &events_.at(model.event.emplace(draw(kEvents)));
      model.waiters = static_cast<std::uint32_t>(1 + draw(7));
      model.must_go_on = model.is_interrupted;
      woken = fibers.wait(event, model.waiters, until);
      EXPECT_TRUE(model.must_go_on) << "it was woken for nothing";
    }
    EXPECT_EQ(woken, model.is_interrupted ? Woken::by_signal : Woken::by_event);
    ++woken_.at(static_cast<std::size_t>(woken));
    model.descriptor.reset();
    model.event.reset();
    model.must_go_on = false;
  }

  /// Also for those who begin to wait for it while the others go on.
  void make_ready(std::size_t descriptor) {
    descriptors_.at(descriptor).send();
    for (auto& [number, model] : models_) model.must_go_on = model.descriptor == descriptor;
    EXPECT_TRUE(run_until(*fibers_, [this] { return !must_any_go_on(); }));
    descriptors_.at(descriptor).receive();
  }

  void notify(std::size_t event, std::uint32_t waiters) {
    for (auto& [number, model] : models_) {
      model.must_go_on = model.event == event && (model.waiters & waiters) != 0;
    }
    fibers_->start([this, event, waiters] { fibers_->notify(&events_.at(event), waiters); });
    EXPECT_FALSE(must_any_go_on());
  }

  void interrupt() {
    if (tasks_.empty()) return;
    const auto chosen = std::next(tasks_.begin(), static_cast<std::ptrdiff_t>(draw(tasks_.size())));
    interrupted(models_[chosen->first]);
    fibers_->interrupt(*chosen->second);
    fibers_->run();
    EXPECT_FALSE(must_any_go_on());
  }

  static void interrupted(Model& model) { model.is_interrupted = model.must_go_on = true; }

  [[nodiscard]] bool must_any_go_on() const {
    return std::ranges::any_of(models_, [](const auto& each) { return each.second.must_go_on; });
  }

  std::mt19937 random_;
  std::array<SocketPair, kDescriptors> descriptors_;
  const std::array<int, kEvents> events_{};
  std::map<int, Model> models_;
  std::map<int, Fibers::Task*> tasks_;
  int started_ = 0;
  int ended_ = 0;
  std::array<int, 3> woken_{};
  std::unique_ptr<Fibers> fibers_ = std::make_unique<Fibers>();
};

TEST(RandomFibers, GoOnExactlyWhenTheyCan) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const int lives = examples(40);
  std::map<Woken, int> woken;
  for (int life = 0; life < lives && !::testing::Test::HasFailure(); ++life) {
    Life random(seed + static_cast<unsigned>(life));
    for (int i = 0; i < 200; ++i) random.step();
    random.end();
    for (const Woken by : {Woken::by_event, Woken::by_signal, Woken::by_deadline})
      woken[by] += random.woken(by);
  }
  EXPECT_GT(woken[Woken::by_event], 20 * lives);
  EXPECT_GT(woken[Woken::by_signal], 20 * lives);
  EXPECT_EQ(woken[Woken::by_deadline], 0);
}

}  // namespace
}  // namespace overlimit
