// Package trials holds the tests of Bellhop as a whole. They start real processes,
// and inject real faults into them, into Redis and into the machine:
//
//   - crash kills, stops, cuts off and starves processes, one fault in each test;
//   - faults injects random faults under load and checks the history of all processes;
//   - model publishes few ids from many processes and checks all answers against a model;
//   - failover replaces masters of Redis, by Sentinel and in a Cluster;
//   - vm boots a systemd and installs the package there;
//   - standstill judges bounds, and notes when the machine itself stood still;
//   - mutants breaks one thing at a time, and checks that the tests that mean it fail;
//   - pagestest reads the commands of the pages, which tests here and of the command run.
//
// Only tests import them. They are the tests that judge bounds on real time, so they run
// alone, one package after the other.
package trials
