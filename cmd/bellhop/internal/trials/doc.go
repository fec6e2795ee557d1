// Package trials holds the tests of Bellhop as a whole, which start its processes
// and do to them, to Redis and to the machine what happens in the world:
//
//   - crash kills, stops, cuts off and starves processes, one fault for each test;
//   - faults makes random faults under load and checks the history of all processes;
//   - failover replaces masters of Redis, by Sentinel and in a Cluster;
//   - vm boots a systemd and installs the package there;
//   - pagestest reads the pages' commands, which all of them and the command's tests run.
//
// Nothing but tests imports them.
package trials
