// Package faults injects faults under load and checks that no message was lost. It holds
// tests only:
//
//	make faults                       # each fault once, and 20 random rounds
//	make faults ROUNDS=200            # as many rounds
//	SEED=4711 make faults ROUNDS=1    # the plan of one round again
//
// A round is a world of real processes: a redis-server with an append-only file, a
// nats-server, two daemons, publishers, workers, also with the packages for Node and
// Python, listeners, and a receiver of pushes to a URL, which at times answers wrongly,
// closes early or hangs. Each process reaches the
// servers over links of its own, and Redis as a user with the least rights. REDIS_SERVER
// names another program than redis-server. In some rounds Redis is a master with a replica
// under sentinels, and in some a Cluster of three masters with a replica each, where the
// store has 8 shards: then processes reach Redis without links. Under load a round makes one to three faults,
// heals them, waits until all messages are settled, and checks the history that all
// processes wrote (package history). A seed fixes the plan of a round: the load, the faults,
// their targets, when and for how long. It does not fix the scheduling of processes, so a
// violation may need several tries to appear again.
package faults
