package doctor

import (
	"fmt"
	"strconv"
)

// cluster tells whether a node of a Cluster is taken for the whole: it refuses
// what another holds, after a failover at the latest.
func (e *exam) cluster() {
	if e.store.InCluster() || e.info["cluster_enabled"] != "1" {
		return
	}
	e.tell("cluster", Fail, "this is a node of a Redis Cluster, and it is used alone", "name several of its nodes in BELLHOP_REDIS_URL, separated by commas")
}

// replicas tells whether a failover would lose what was promised. Where there
// are no replicas and nothing waits for them there is nothing to tell. It returns
// how many can be waited for, of those wanted.
func (e *exam) replicas(wanted int) int {
	const check = "replicas"
	const minimum = "run CONFIG SET min-replicas-to-write 1 on all servers, and put it into redis.conf"
	connected, _ := strconv.Atoi(e.info["connected_slaves"])
	told, guarded := e.info["min_slaves_good_slaves"] // which is told where min-replicas-to-write is set
	good, _ := strconv.Atoi(told)
	switch {
	case e.info["role"] == "slave":
		e.tell(check, Fail, "this is a replica itself, and takes no writes", "set BELLHOP_REDIS_URL to its master, or BELLHOP_REDIS_MASTER where Sentinel watches it")
	case connected < wanted:
		e.tell(check, Fail, fmt.Sprintf("%d connected, and BELLHOP_WAIT_REPLICAS is %d: what is published is not acknowledged", connected, wanted),
			"start replicas (REPLICAOF), or lower BELLHOP_WAIT_REPLICAS")
	case guarded && good < max(wanted, 1):
		e.tell(check, Fail, fmt.Sprintf("%d connected, %d of them heard lately, %d waited for: what is published is refused or not acknowledged", connected, good, wanted),
			"see to the replicas, which may hang or be cut off")
	case connected == 0:
	case wanted == 0:
		e.tell(check, Warn, fmt.Sprintf("%d connected, and nothing waits for them: a failover loses what was acknowledged last", connected),
			"set BELLHOP_WAIT_REPLICAS=1, for everything that publishes or acknowledges")
	case !guarded:
		e.tell(check, Warn, fmt.Sprintf("%d connected, %d waited for; a master that is cut off from them goes on carrying for itself", connected, wanted), minimum)
	case connected == wanted:
		e.tell(check, Warn, fmt.Sprintf("%d connected, %d waited for: publishing stops with the first that is missing", connected, wanted),
			"start one more replica of this master (REPLICAOF; CLUSTER REPLICATE in a Cluster)")
	default:
		e.tell(check, OK, fmt.Sprintf("%d connected, %d waited for", connected, wanted), "")
	}
	return min(wanted, connected)
}
