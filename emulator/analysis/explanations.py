"""Explanations for readers of study.md: captions of its figures, and terms of its tables."""

WHEN = (
    "Which algorithm reaches the main target first if all devices have this uplink (Mbit/s), by regime; downlinks, "
    "latencies and devices are the study's own. A cell has an algorithm's colour if all others are significantly "
    "slower, after Holm's correction over all cells of its panel; otherwise it is grey. Numbers: how many times as "
    "long the next one takes."
)
CAPTIONS = {
    "ratios": "Each algorithm's mean time divided by the baseline's, with its 95 % interval. Left of the line at 1 it "
    "is faster than the baseline. A hollow point is not significant after Holm's correction. Times count up to the "
    "horizon; the table says which ratios are bounds.",
    "times": "Each dot is the time of one seed to the main target on the study's own links. A hollow dot at the "
    "horizon is a seed that did not reach the target in time; if there are several, their number is next to it. The "
    "tick is the restricted mean time.",
    "pace": "The mean seconds of a round, by part, for the device that closes the round. Parts below 1 % of every "
    "round are left out.",
    "map": "Which algorithm reaches the main target first, for each link and device speed. A cell has an algorithm's "
    "colour if its 95 % intervals against all others exclude 1; otherwise it is grey. Numbers: how many times as long "
    "the next one takes; ≥, ≤: at least, at most this many times, because some seeds of one of the two did not reach "
    "the target; in parentheses: some seeds of both did not.",
    "duel": "Which of {} and {} reaches the main target first, ignoring all others, for each link and device speed. "
    "Numbers: how many times as long the other takes.",
    "traces": "Which algorithm reaches the main target first if all devices replay a recorded link, and how many times "
    "as long the next one takes, with its 95 % interval. Grey: no significant difference.",
}
READ = """\
- **Restricted mean time.** A run that stops before the target shows only that it would have taken longer. So each run
  counts with its time to the target or with the horizon, whichever comes first. The mean is over seeds.
- **Horizon.** The end of the first run that stopped without reaching the target; if every run reached it, no horizon is
  needed. An algorithm's mean uses the horizon of its own runs, and is a lower bound (≥) if some of them missed the
  target. A comparison of two algorithms uses the horizon of their runs. So a run that stopped early affects no other
  algorithm.
- **Ratio and interval.** 1.20 [1.10, 1.31] means 1.20 times as long; the brackets are the 95 % interval over seeds. If
  seeds of one algorithm were cut off at the horizon, the ratio is a bound: ≥ 1.89 [1.61, ∞] means at least 1.89 times
  as long, and ≤ at most. If seeds of both were, the true ratio may be larger or smaller.
- **Significant.** With several targets and links, some differences will look large by chance. Holm's correction of the
  p-values accounts for that: each pair of algorithms is corrected over all of its targets and links together, and
  separately from other pairs. A difference is significant (✓) if its corrected p is below 0.05. The brackets are not
  corrected, so 1.23 [1.08, 1.42] may not be significant although it excludes 1. Not significant does not mean equal.
  With five seeds there are intervals but no significance; six are enough for one comparison, eight for up to 500.
  A verdict lists which algorithms are slower than the one with the lowest mean time. Each of these pairs is corrected
  as any other, and not for the number of algorithms in the list; that one has the lowest mean time was seen in the same
  runs. Ratios of rounds, and of seconds per round, have intervals, but are not tested.
- **Map and recorded links.** On the map of one regime and on recorded links, each point has its own 95 % interval,
  without correction. On the map over regimes, the p-values of a question (two algorithms, or all) are corrected
  together over all regimes and links. All points of a regime replay the same runs, so they are not independent
  evidence.
- **Placebo.** An algorithm whose importance means nothing, for example because its values are shuffled. If it does as
  well as the original, importance is not what helps. If it is slower, importance helps only if it also takes more
  rounds (the interval lies above 1), because it has settings of its own, and with more epochs each round takes longer.
  If the penalty has no effect, a placebo shows nothing either. Placebos are compared on the study's own links only.
- **Null (without penalty).** An algorithm whose penalty is 0. It must learn exactly what the baseline learns; if it
  does not, the study is invalid.
- **Leverage.** How far the penalty can hold back a weight in one round: learning rate x steps x the penalty's second
  derivative, which is 2 x strength x importance (of importance from agents half of that), at the 99th percentile of all
  weights. Below 0.01 the penalty has no effect beyond chance: even the smallest change of a weight changes the times of
  single seeds. `leverage.csv` has that of each round.
- **Control.** An algorithm that uses the same data on the server as FedCL, without its importance. Controls are not
  ranked.
- **Row.** An algorithm that is shown but not ranked, such as one with a paper's own importance and learning rate.
- **Tuned for rounds, for a link.** The best settings depend on what is minimised. They are chosen by validation
  accuracy, with seeds of their own, for the fewest rounds, or for the fewest seconds on the study's own links or on one
  in `tune.links`. On the map and on recorded links, each algorithm has the best of its settings for links. Settings for
  the fewest rounds are listed for comparison, but not run again.
"""
