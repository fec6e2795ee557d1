package carrier

// Bound is how long the loop takes at most to come around.
const Bound = bound
