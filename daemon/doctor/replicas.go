package doctor

import (
	"fmt"
	"strconv"
)

// cluster reports a node of a Cluster that is used as if it were the whole. Such a
// node refuses keys of other nodes, after a failover at the latest.
func (s *server) cluster(isWhole bool) {
	if isWhole || s.info["cluster_enabled"] != "1" {
		return
	}
	s.report("cluster", Fail, "this is one node of a Redis Cluster, used as if it were all of it", nodesRemedy)
}

// replicas reports whether a failover would lose acknowledged messages. Without
// replicas and with none wanted it reports nothing. It returns how many of the
// wanted replicas there are to wait for.
func (s *server) replicas(wanted int) int {
	const check = "replicas"
	const minimum = "run CONFIG SET min-replicas-to-write 1 on all servers, and put it into redis.conf"
	connected, _ := strconv.Atoi(s.info["connected_slaves"])
	count, guarded := s.info["min_slaves_good_slaves"] // present only if min-replicas-to-write is set
	good, _ := strconv.Atoi(count)
	switch {
	case s.info["role"] == "slave":
		s.report(check, Fail, "this server is itself a replica and takes no writes", masterRemedy)
	case connected < wanted:
		s.report(check, Fail, fmt.Sprintf("%d connected, but BELLHOP_WAIT_REPLICAS is %d: publishes are not acknowledged", connected, wanted),
			"start replicas (REPLICAOF), or lower BELLHOP_WAIT_REPLICAS")
	case guarded && good < max(wanted, 1):
		s.report(check, Fail, fmt.Sprintf("%d connected, %d of them answered lately, %d waited for: publishes are refused or not acknowledged", connected, good, wanted),
			"check the replicas: they may hang or be cut off")
	case connected == 0:
	case wanted == 0:
		s.report(check, Warn, fmt.Sprintf("%d connected, but nothing waits for them: a failover loses what was acknowledged last", connected),
			"set BELLHOP_WAIT_REPLICAS=1 for every process that publishes or acknowledges")
	case !guarded:
		s.report(check, Warn, fmt.Sprintf("%d connected, %d waited for; a master that is cut off from them keeps carrying on its own", connected, wanted), minimum)
	case connected == wanted:
		s.report(check, Warn, fmt.Sprintf("%d connected, %d waited for: publishing stops as soon as one is missing", connected, wanted),
			"start one more replica of this master (REPLICAOF; CLUSTER REPLICATE in a Cluster)")
	default:
		s.report(check, OK, fmt.Sprintf("%d connected, %d waited for", connected, wanted), "")
	}
	return min(wanted, connected)
}
