// Package failover holds the tests of high availability: masters of Redis, watched by
// Sentinel or in a Cluster, are killed, stopped and replaced under load. It also tests
// TLS and a user with the least rights. It holds tests only.
package failover
