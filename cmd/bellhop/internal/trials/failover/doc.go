// Package failover is the tests of high availability: masters of Redis that are
// killed, stopped and replaced under load, watched by Sentinel or in a Cluster,
// and connections with TLS as a user with the least rights. It holds no code.
package failover
