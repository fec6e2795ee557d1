// Package faults is a program that makes faults under load and checks that
// nothing was lost. It is nothing but tests:
//
//	make faults                       # 20 random rounds
//	make faults ROUNDS=200            # as many as that
//	SEED=4711 make faults ROUNDS=1    # the plan of one round again
//
// A round is a world of real processes: a redis-server with an append-only file,
// a nats-server, two daemons, and publishers, workers and listeners, each of which
// reaches the servers over a link of its own, and Redis as a user with the least
// rights. REDIS_SERVER names another program than redis-server. Under load it
// makes one to three faults, heals them, waits until everything is settled, and
// checks the history that all processes wrote (package history). A seed fixes the
// plan of a round: the load, the faults, whom they hit, when and for how long. It
// does not fix the moments at which processes run, so a violation may need several tries.
package faults
