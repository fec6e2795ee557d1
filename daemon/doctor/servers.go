package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// reach finds the servers, reads INFO of each, and reports whether any answered.
func (e *exam) reach(ctx context.Context) bool {
	const check = "reachable"
	shards, err := e.store.Shards(ctx)
	if err != nil {
		e.report(check, Fail, err.Error(), unreached(err))
		return false
	}
	e.shards = shards
	e.placed(ctx)
	e.servers = slices.DeleteFunc(e.servers, func(s *server) bool {
		began := time.Now()
		s.info, err = s.shard.Info(ctx)
		if s.took = time.Since(began); err != nil {
			e.away = true
			e.report(check, Fail, err.Error(), unreached(err))
			return true
		}
		s.trial = s.info["redis_version"] == ""
		return false
	})
	switch len(e.servers) {
	case 0:
		return false
	case 1:
		e.report(check, OK, fmt.Sprintf("%s answers in %s", e.servers[0].name, millis(e.servers[0].took)), "")
	default:
		slowest := slices.MaxFunc(e.servers, func(a, b *server) int { return int(a.took - b.took) })
		e.report(check, OK, fmt.Sprintf("%d servers answer; the slowest, %s, in %s", len(e.servers), slowest.name, millis(slowest.took)), "")
	}
	return true
}

// unreached returns what to do about a server that does not answer INFO.
func unreached(err error) string {
	if remedy := Remedy(err); remedy != "" {
		return remedy
	}
	return "check user and password: BELLHOP_REDIS_URL, BELLHOP_REDIS_USERNAME, BELLHOP_REDIS_PASSWORD_FILE; the user needs +info"
}

// placed finds which server holds which shards.
func (e *exam) placed(ctx context.Context) {
	if len(e.shards) == 1 {
		e.servers = []*server{{name: e.store.Address(), shard: e.shards[0]}}
		return
	}
	e.sites = make([]string, len(e.shards))
	for i, shard := range e.shards {
		site, err := shard.Site(ctx)
		if err != nil {
			site.Server = "" // the call of INFO says why
		}
		if e.sites[i] = site.Server; !slices.ContainsFunc(e.servers, func(s *server) bool { return s.name == site.Server }) {
			e.servers = append(e.servers, &server{name: site.Server, shard: shard})
		}
	}
}

const (
	movedWithin = 10 * time.Second // a slot is moved, if that goes well
	lookAgain   = 500 * time.Millisecond
)

// spread reports where the shards of a store of several are, whether the root is there,
// and whether a slot is being moved for long.
func (e *exam) spread(ctx context.Context) {
	if founded, err := e.founded(ctx); err == nil && !founded { // its root may be lost
		if err := e.store.CheckRoot(ctx); errors.Is(err, reach.ErrUnfit) {
			e.report(Shards, Fail, err.Error(), "start a daemon with BELLHOP_SHARDS set to that number, or run bellhop doctor --repair with it: the key is written again, and nothing else is lost")
		}
	}
	if len(e.shards) == 1 {
		return
	}
	servers, err := e.store.Servers(ctx)
	if err != nil {
		e.report(Shards, Warn, err.Error(), "see what is reachable above")
		return
	}
	counts := make(map[string]int)
	for _, site := range e.sites {
		counts[site]++
	}
	var each []int
	for _, master := range servers {
		if !master.IsReplica {
			each = append(each, counts[master.Address])
		}
	}
	slices.Sort(each)
	slices.Reverse(each)
	found := fmt.Sprintf("%d on %s: %s", len(e.shards), plural(len(each), "master"), strings.Join(strings.Fields(strings.Trim(fmt.Sprint(each), "[]")), ", "))
	if ideal := (len(e.shards) + len(each) - 1) / len(each); each[0] > ideal+1 {
		e.report(Shards, Warn, fmt.Sprintf("%s; spread evenly a master would have at most %d", found, ideal), "give each master as many slots as the others, in one row: redis-cli --cluster reshard")
	} else {
		e.report(Shards, OK, found, "")
	}
	e.moving(ctx)
	e.covered(ctx)
}

// covered reports masters that refuse all calls while any other is away.
func (e *exam) covered(ctx context.Context) {
	if !e.store.InCluster() {
		return
	}
	for _, s := range e.servers {
		config, err := s.shard.ServerConfig(ctx) // not every user may read that
		if err == nil && config["cluster-require-full-coverage"] == "yes" {
			e.report(Shards, Warn, "while one master is away, all others refuse calls, too (cluster-require-full-coverage yes)",
				"run CONFIG SET cluster-require-full-coverage no on each node, and put it into redis.conf: then only its topics stop")
			return
		}
	}
}

// moving reports the shards whose slots are being moved for longer than that takes.
func (e *exam) moving(ctx context.Context) {
	if !e.store.InCluster() {
		return
	}
	left, err := stillMoving(ctx, e.shards)
	for end := time.Now().Add(movedWithin); err == nil && len(left) > 0 && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookAgain):
		}
		left, err = stillMoving(ctx, left)
	}
	switch {
	case reach.Refused(err):
		e.report(Shards, OK, "whether slots are being moved is unknown, since this user may not run CLUSTER NODES", "")
	case err == nil && len(left) > 0:
		e.report(Shards, Fail, fmt.Sprintf("%s: the slot has been migrating or importing for more than %v; some calls are refused meanwhile", numbers(left), movedWithin),
			"finish the move, or take it back: redis-cli --cluster fix. Move slots that hold a shard with atomic commands only")
	}
}

// stillMoving returns those of some shards whose slots are being moved. The error is that of
// a user who may not know.
func stillMoving(ctx context.Context, shards []store.Shard) (still []store.Shard, err error) {
	for _, shard := range shards {
		moves, err := shard.IsMoving(ctx)
		if reach.Refused(err) {
			return nil, err
		}
		if err == nil && moves { // one that is away is reported already
			still = append(still, shard)
		}
	}
	return still, nil
}

const (
	maxApart    = 100 * time.Millisecond // for the clocks of masters: broadcasts of several shards are in order by them
	sureOfClock = time.Millisecond
)

// clock reports how far the clocks of the servers are off this host's, and off each other.
func (e *exam) clock(ctx context.Context) {
	const check = "clock"
	var offsets []time.Duration
	e.onEach(func(s *server) {
		offset, err := s.shard.ClockOffset(ctx, sureOfClock)
		switch {
		case err != nil:
			s.report(check, Fail, err.Error(), "the user needs +time")
			return
		case offset.Abs() > carrier.MaxSkew && s.trial:
			s.report(check, OK, fmt.Sprintf("the trial server's clock, which is moved by hand, is %s this host's", ahead(offset)), "")
		case offset.Abs() > carrier.MaxSkew:
			s.report(check, Warn, fmt.Sprintf("Redis's clock is %s this host's", ahead(offset)),
				"run an NTP client on both hosts: Redis's clock decides when an absolute due time has come; delays are not affected")
		case len(e.servers) == 1:
			s.report(check, OK, fmt.Sprintf("Redis's clock is %s this host's", ahead(offset)), "")
		}
		offsets = append(offsets, offset)
	})
	if len(offsets) < 2 {
		return
	}
	apart := slices.Max(offsets) - slices.Min(offsets)
	if apart > maxApart {
		e.report(check, Warn, fmt.Sprintf("the clocks of the servers are up to %s apart", short(apart)),
			"run an NTP client on all of them: a delay is counted by the clock of the topic's shard")
		return
	}
	e.report(check, OK, fmt.Sprintf("the clocks of the servers are up to %s apart", short(apart)), "")
}
