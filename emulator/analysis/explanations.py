"""Explanations for readers of study.md: captions of its figures, and terms of its tables."""

WHEN = (
    "Who reaches the main target first when all devices have this uplink (Mbit/s), by regime; downlinks, latencies and "
    "devices are the study's own. A cell has an algorithm's colour where all others are significantly slower, after "
    "Holm's adjustment over all cells of its panel, and is grey where it is not. Numbers: how many times as long "
    "the next one takes."
)
CAPTIONS = {
    "ratios": "Each algorithm's mean time over the baseline's, with its 95 % interval. Left of the line at 1 it is "
    "faster than the baseline. A hollow point is not significant after Holm's adjustment. Times count up to the "
    "horizon; the table tells which ratios are bounds.",
    "times": "Each dot is the time that one seed took to the main target on the study's own links. A hollow dot at the "
    "horizon is a seed that did not get there in time; of several, their number stands beside it. The tick is the "
    "restricted mean time.",
    "pace": "The mean seconds of a round, by what they go to, on the path of the device that closes the round. Parts "
    "below 1 % of every round are left out.",
    "map": "Who reaches the main target first, for each link and device speed. A cell has an algorithm's colour where "
    "the 95 % interval against each other one leaves 1 out, and is grey where it does not. Numbers: how many times as "
    "long the next one takes; ≥, ≤: at least, at most so many times, as seeds of one of the two did not get there; in "
    "parentheses: seeds of neither always did.",
    "duel": "Who of {} and {} reaches the main target first, as if there were no others, for each link and device "
    "speed. Numbers: how many times as long the other takes.",
    "traces": "Who reaches the main target first when all devices replay a recorded link, and how many times as long "
    "the next one takes, with its 95 % interval. Grey: it is undecided who is first.",
}
READ = """\
- **Restricted mean time.** A run that stops before the target shows only that it would have taken longer. So each run
  counts with its time to the target or with the horizon, whichever comes first. The mean is over seeds.
- **Horizon.** The end of the first run that stopped without the target; if every run got there, none is needed. The
  mean of an algorithm has the horizon of its own runs, and is a lower bound (≥) if some of them missed the target. A
  comparison of two has the horizon of the runs of these two. So one that stopped early shortens nobody else's.
- **Ratio and interval.** 1.20 [1.10, 1.31] means 1.20 times as long; the brackets hold the 95 % interval over seeds.
  Where seeds of one of the two were cut off at the horizon, the ratio is a bound: ≥ 1.89 [1.61, ∞] means at least 1.89
  times as long, and ≤ at most. Where seeds of both were, the true ratio may be larger or smaller.
- **Significant.** With several targets and links, chance has several tries. Holm's adjustment of the p-values makes up
  for that: each pair of algorithms is adjusted over all of its targets and links together, and apart from all other
  pairs. A difference is significant (✓) if its adjusted p is below 0.05. The brackets are not adjusted, so 1.23 [1.08,
  1.42] may not be significant although it leaves 1 out. Not significant does not mean equal. Five seeds give an
  interval and decide nothing; six can decide one comparison, eight any number.
- **Map and recorded links.** On the map of one regime and on recorded links, each place has its own 95 % interval,
  without adjustment. On the map over regimes, the p-values of a question (two algorithms, or all) are adjusted together
  over all regimes and links. All places of a regime replay the same runs, so they are not independent evidence.
- **Placebo.** An algorithm whose importance means nothing, for example because its values are shuffled. If it does as
  well as the algorithm that it imitates, importance is not what helps. Where the penalty does nothing, a placebo tells
  nothing either. Placebos are compared on the study's own links alone.
- **Null (without penalty).** An algorithm whose penalty is 0. It must learn exactly what the baseline learns; if it
  does not, the study is wrong.
- **Leverage.** How far the penalty can hold back a weight in one round: 2 x learning rate x steps x strength x
  importance, at the 99th percentile of all weights. Below 0.01 the penalty has no effect beyond chance: even the
  smallest change of a weight moves the times of single seeds.
- **Control.** An algorithm that uses the same data on the server as FedCL, without its importance. Controls are not
  ranked.
- **Row.** An algorithm that is shown but not ranked, such as one with a paper's own importance and learning rate.
- **Tuned for rounds, for a link.** Which settings are best depends on what is counted. They are chosen by validation
  accuracy under seeds of their own, so that the fewest rounds are taken, or the fewest seconds on the study's own links
  or on one that `tune.links` names. On the map and on recorded links, each algorithm has the best of the settings for
  links. Those for the fewest rounds are told for comparison, and not played again.
"""
