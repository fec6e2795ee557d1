package daemon

// WarnOfLoss is for a test of what it does not warn of.
var WarnOfLoss = warnOfLoss
