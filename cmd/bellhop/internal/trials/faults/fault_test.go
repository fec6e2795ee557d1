package faults_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
	"github.com/bellhopd/bellhop/notify/servers/child"
)

// A fault is a kind of failure.
type fault struct {
	name    string
	targets []string // roles that it may hit

	begin beginning

	least, most time.Duration // bounds of how long it lasts
}

// A beginning makes a fault that is planned to last for a time, and returns its heal.
type beginning func(ctx context.Context, w *world, v *victim, lasts time.Duration) (healing, error)

type healing func(context.Context) error

// A victim is the target of a fault.
type victim struct {
	role   string  // carrier, worker-1, redis
	member *member // nil for Redis and the database
	links  []*link // to Redis; of the bridge to NATS; of the archive to its database; of clients to the daemons or NATS
	epoch  int64   // of the carrier

	node, replica int   // of a Cluster
	shards        []int // of which the node is the master

	begun, healed history.Record // further fields of the records of the fault and its heal
}

// id returns the name of the victim in the history.
func (v victim) id() string {
	if v.member == nil {
		return v.role
	}
	return v.member.id()
}

// Roles that faults may hit. The bridge is the carrier's daemon with its link to NATS, the
// archive the same one with its link to the database, and the outbox with that to the outbox.
var (
	crew      = append([]string{"carrier", "standby", "publisher-1", "worker-1", "listener-1", "web-1", "courier-1", hook}, packaged...)
	everybody = append([]string{"redis", "nats", database}, crew...)
	stoppable = append([]string{database}, crew...)
	linked    = append([]string{"bridge", archiver, relayer}, crew...)
)

// faults are all faults, in the order of the report.
var faults = slices.Concat(crewFaults, commandFaults, redisFaults, rightsFaults, machineFaults, crashFaults, archiveFaults, replicaFaults, clusterFaults, upgradeFaults)

// crewFaults hit processes and links.
var crewFaults = []fault{
	{"kill -9", everybody, kill, 100 * time.Millisecond, 1500 * time.Millisecond},
	{"SIGSTOP", everybody, pause, 200 * time.Millisecond, 2500 * time.Millisecond},
	{"SIGTERM", stoppable, term, 100 * time.Millisecond, 1500 * time.Millisecond},
	{"cut", linked, onLinks(cut), 200 * time.Millisecond, 4 * time.Second},
	{"requests cut", linked, onLinks(cutRequests), 200 * time.Millisecond, 4 * time.Second},
	{"replies cut", linked, onLinks(cutReplies), 200 * time.Millisecond, 4 * time.Second},
	{"200 ms each way", linked, onLinks(slow), 500 * time.Millisecond, 2 * time.Second},
	{"reset in a reply", linked, onLinks(breakReply), 50 * time.Millisecond, 500 * time.Millisecond},
}

// victim returns the present holder of a role.
func (w *world) victim(ctx context.Context, role string) (v victim, err error) {
	v.role = role
	switch role {
	case "redis", database, onCluster[0], onCluster[1], onCluster[2]:
	case "nats":
		v.member = w.nats
	case "carrier":
		v.member, v.epoch, err = w.carrier(ctx)
	case "bridge", archiver, relayer:
		v.member, _, err = w.carrier(ctx)
	case "standby":
		carries, _, fault := w.carrier(ctx)
		v.member, err = w.crew[0], fault
		if v.member == carries {
			v.member = w.crew[1]
		}
	default:
		v.member = w.member(role)
	}
	for _, server := range serversOf(role) {
		if err == nil && v.member != nil && v.member.links[server] != nil {
			v.links = append(v.links, v.member.links[server])
		}
	}
	if err == nil && w.cluster != nil && (role == "carrier" || role == "standby") {
		v.begun.Epochs, err = w.terms(ctx, v.member)
	}
	return v, err
}

// seize returns the present holder of a role, and reserves it until free is called, so that
// no two faults hit one process, or the Cluster, at once: without two of its masters it has
// no majority.
func (w *world) seize(ctx context.Context, role string) (v victim, free func(), err error) {
	fault := until(role+" has no other fault", func() bool {
		if v, err = w.victim(ctx, role); err != nil {
			return true
		}
		name := roleOf(role)
		if v.member != nil {
			name = v.member.name
		}
		lock, _ := w.busy.LoadOrStore(name, new(sync.Mutex))
		free = lock.(*sync.Mutex).Unlock
		return lock.(*sync.Mutex).TryLock()
	})
	return v, free, errors.Join(err, fault)
}

// serversOf returns the servers to which the links of a role may be cut.
func serversOf(role string) []string {
	switch role {
	case "redis", "nats", database:
		return nil
	case archiver:
		return []string{database}
	case relayer:
		return []string{relayer}
	case "bridge", "courier-1":
		return []string{"nats"}
	case "web-1", packaged[0], packaged[1]:
		return []string{"daemon-1", "daemon-2"}
	case hook:
		return []string{hook}
	}
	return []string{"redis"}
}

// kill is kill -9, healed by a restart.
func kill(_ context.Context, w *world, v *victim, _ time.Duration) (healing, error) {
	switch {
	case v.role == database:
		w.database.Kill()
		return w.database.Restart, nil
	case v.member == nil:
		w.redis.Kill()
		return w.restartRedis, nil
	}
	v.member.kill(v.epoch)
	return v.member.again, nil
}

// restartRedis restarts Redis with its append-only file.
func (w *world) restartRedis(ctx context.Context) (err error) {
	if w.redis, err = w.redis.Restart(ctx); err != nil {
		return err
	}
	return w.ask(ctx, "CONFIG SET appendfsync "+w.fsync)
}

// term is SIGTERM, healed by a restart.
func term(_ context.Context, w *world, v *victim, _ time.Duration) (healing, error) {
	if v.role == database {
		w.database.Stop()
		return w.database.Restart, nil
	}
	return v.member.again, v.member.term(v.epoch)
}

// pause stops a process by SIGSTOP, healed by SIGCONT.
func pause(_ context.Context, w *world, v *victim, _ time.Duration) (healing, error) {
	if v.role == database {
		return func(context.Context) error { return w.database.Resume() }, w.database.Pause()
	}
	var process *child.Process
	if v.member == nil {
		process = w.redis.Process
	} else {
		process = v.member.running()
	}
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("stop %s: %w", v.id(), err)
	}
	return func(context.Context) error { return process.Signal(syscall.SIGCONT) }, nil
}

// onLinks returns a fault of all links of a victim. The heal opens them.
func onLinks(cut func(k *link, lasts time.Duration)) beginning {
	return func(_ context.Context, _ *world, v *victim, lasts time.Duration) (healing, error) {
		for _, k := range v.links {
			cut(k, lasts)
		}
		return func(context.Context) error {
			for _, k := range v.links {
				k.requests.open()
				k.replies.open()
			}
			return nil
		}, nil
	}
}

// cut cuts a link silently. What was sent meanwhile arrives after the heal.
func cut(k *link, _ time.Duration) {
	k.requests.hold()
	k.replies.hold()
}

func cutRequests(k *link, _ time.Duration) { k.requests.hold() }

func cutReplies(k *link, _ time.Duration) { k.replies.hold() }

func slow(k *link, _ time.Duration) {
	k.requests.slow(200 * time.Millisecond)
	k.replies.slow(200 * time.Millisecond)
}

// breakReply resets a connection in the middle of a reply.
func breakReply(k *link, lasts time.Duration) { k.replies.breakAfter(1 + int(lasts/time.Millisecond)) }
