package carrier

// Bound is how long the loop takes at most to come around.
const Bound = bound

// SweepOn is the pause of the housekeeping while there are more topics to check.
const SweepOn = sweepOn
