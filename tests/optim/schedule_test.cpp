#include "attend/optim/schedule.hpp"

#include <cmath>
#include <limits>

#include "../catch.hpp"

using namespace attend;
using optim::Schedule;
using optim::ScheduleKind;

TEST_CASE("Schedule: noam is the paper's formula", "[optim]") {
  const Schedule s({.kind = ScheduleKind::noam, .warmup = 4000, .d_model = 512, .factor = 2});
  for (const index_t step : {1, 10, 3999, 4000, 4001, 100000}) {
    const auto n = static_cast<double>(step);
    CHECK(s.at(step) == Approx(2 * std::pow(512, -0.5) * std::min(std::pow(n, -0.5), n * std::pow(4000, -1.5))).epsilon(1e-13));
  }
}

TEST_CASE("Schedule: each kind rises linearly and then does what its name says", "[optim]") {
  const auto make = [](ScheduleKind kind) {
    return Schedule({.kind = kind, .learning_rate = 0.4, .warmup = 4, .steps = 12, .final_rate = 0.1});
  };
  for (const auto kind : {ScheduleKind::constant, ScheduleKind::linear, ScheduleKind::cosine, ScheduleKind::inverse_sqrt}) {
    const Schedule s = make(kind);
    CHECK(s.at(1) == Approx(0.1));
    CHECK(s.at(3) == Approx(0.3));
    CHECK(s.at(4) == Approx(0.4));
  }
  CHECK(make(ScheduleKind::constant).at(1000) == 0.4);
  CHECK(make(ScheduleKind::linear).at(8) == Approx(0.25));
  CHECK(make(ScheduleKind::linear).at(12) == Approx(0.1));
  CHECK(make(ScheduleKind::linear).at(99) == Approx(0.1));
  CHECK(make(ScheduleKind::cosine).at(6) == Approx(0.1 + 0.3 * (1 + std::sqrt(0.5)) / 2));
  CHECK(make(ScheduleKind::cosine).at(8) == Approx(0.25));
  CHECK(make(ScheduleKind::cosine).at(99) == Approx(0.1));
  CHECK(make(ScheduleKind::inverse_sqrt).at(16) == Approx(0.2));
}

TEST_CASE("Schedule: without a warm-up the first step has the full rate", "[optim]") {
  CHECK(Schedule({.kind = ScheduleKind::constant, .learning_rate = 0.5}).at(1) == 0.5);
  CHECK(Schedule({.kind = ScheduleKind::inverse_sqrt, .learning_rate = 0.5}).at(4) == 0.25);
  CHECK(Schedule({.kind = ScheduleKind::noam, .d_model = 4}).at(4) == 0.25);
}

TEST_CASE("Schedule: an open end is set later", "[optim]") {
  const Schedule open({.kind = ScheduleKind::linear, .learning_rate = 1, .warmup = 2});
  CHECK(open.open());
  CHECK(Schedule::parse(open.text()).open());
  CHECK_FALSE(open.ending_at(10).open());
  CHECK(open.ending_at(10).at(6) == Approx(0.5));
  CHECK_FALSE(Schedule({.kind = ScheduleKind::constant}).open());
}

TEST_CASE("Schedule: by the share of a run that is over, an open fall ends with it, and a warm-up by half of it", "[optim]") {
  const auto make = [](ScheduleKind kind) { return Schedule({.kind = kind, .learning_rate = 1, .warmup = 10, .d_model = 64}); };
  const Schedule linear = make(ScheduleKind::linear);
  CHECK(linear.at(5, 0.1) == Approx(0.5 * 0.9));
  CHECK(linear.at(20, 0.75) == Approx(0.25));
  CHECK(linear.at(5, 0.5) == Approx(0.5));  // half of the run: the warm-up is over
  CHECK(linear.at(5, 0.4) == Approx(0.8 * 0.6));
  CHECK(linear.at(100, 1) == Approx(0).margin(1e-15));
  CHECK(linear.at(100, 1.5) == Approx(0).margin(1e-15));
  CHECK(make(ScheduleKind::cosine).at(20, 0.5) == Approx(0.5));
  CHECK(make(ScheduleKind::cosine).at(5, 0.25) == Approx(0.5 * (1 + std::sqrt(0.5)) / 2));
  CHECK(make(ScheduleKind::inverse_sqrt).at(40, 0.9) == Approx(0.5));
  CHECK(make(ScheduleKind::inverse_sqrt).at(2, 0.4) == Approx(0.8));
  CHECK(make(ScheduleKind::constant).at(3, 0.5) == 1);
  // What is made for a run of so many steps does not know of shares, and noam's height goes by its warm-up.
  CHECK(linear.ending_at(20).at(5, 0.9) == linear.ending_at(20).at(5));
  CHECK(make(ScheduleKind::noam).at(5, 0.9) == make(ScheduleKind::noam).at(5));
}

TEST_CASE("Schedule: text and back", "[optim]") {
  for (const Schedule& s :
       {Schedule({.kind = ScheduleKind::noam, .warmup = 4000, .d_model = 256, .factor = 0.7}),
        Schedule({.kind = ScheduleKind::cosine, .learning_rate = 1.0 / 3, .warmup = 7, .steps = 9, .final_rate = 1e-7}),
        Schedule({.kind = ScheduleKind::constant, .learning_rate = 0})}) {
    const Schedule back = Schedule::parse(s.text());
    CHECK(back == s);
    CHECK(back.at(8) == s.at(8));
  }
  CHECK(Schedule({.kind = ScheduleKind::linear, .learning_rate = 0.5, .steps = 9}).text() ==
        "linear:learning_rate=0.5,warmup=0,steps=9,final_rate=0");
  CHECK(Schedule::parse("inverse_sqrt", {.learning_rate = 0.25, .warmup = 9}).text() ==
        "inverse_sqrt:learning_rate=0.25,warmup=9");
}

TEST_CASE("Schedule: what is out of range or unreadable is refused", "[optim]") {
  CHECK_THROWS_AS(Schedule({.learning_rate = -1}), ValueError);
  CHECK_THROWS_AS(Schedule({.learning_rate = std::numeric_limits<double>::infinity()}), ValueError);
  CHECK_THROWS_AS(Schedule({.warmup = -1}), ValueError);
  CHECK_THROWS_AS(Schedule({.steps = -1}), ValueError);
  CHECK_THROWS_AS(Schedule({.kind = ScheduleKind::cosine}).at(1), ValueError);
  CHECK_THROWS_AS(Schedule({.kind = ScheduleKind::cosine, .warmup = 10}).ending_at(10), ValueError);
  CHECK_THROWS_AS(Schedule({.kind = ScheduleKind::linear, .warmup = 10, .steps = 10}), ValueError);
  CHECK_THROWS_AS(Schedule({.kind = ScheduleKind::noam, .d_model = 0}), ValueError);
  CHECK_THROWS_AS(Schedule().at(0), ValueError);
  for (const char* bad :
       {"", "warm", "noam:learning_rate=1", "constant:warmup", "constant:warmup=", "constant:warmup=1x", "constant:warmup=1.5",
        "constant:warmup=1,,", "constant:learning_rate=nan", "cosine:steps=99999999999999999999"})
    CHECK_THROWS_AS(Schedule::parse(bad), ValueError);
}
