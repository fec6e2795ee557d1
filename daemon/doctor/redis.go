package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

func (s *server) version() {
	version := s.info["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	var n int
	_, err := fmt.Sscan(major, &n)
	switch {
	case s.trial:
		s.report("version", Warn, "the trial server of bellhop dev", "use Redis 7.0 or newer, or Valkey, for messages that matter")
	case err != nil || n < reach.MinRedis:
		s.report("version", Fail, version, fmt.Sprintf("use Redis %d.0 or newer, or Valkey", reach.MinRedis))
	case s.info["valkey_version"] != "":
		s.report("version", OK, "Valkey "+s.info["valkey_version"], "")
	default:
		s.report("version", OK, "Redis "+version, "")
	}
}

// KeepRemedy says how to have Redis keep messages over a restart.
const KeepRemedy = "run CONFIG SET appendonly yes, and put it into redis.conf"

func (s *server) persistence(ctx context.Context) {
	const check = "persistence"
	if s.trial {
		s.report(check, Warn, "none: messages vanish when the trial server ends", "install redis-server; bellhop dev then uses it, but with --clock manual")
		return
	}
	// Not every user may read the configuration; without it appendfsync is unknown.
	config, err := s.shard.ServerConfig(ctx)
	known := err == nil
	if s.info["aof_enabled"] != "1" {
		if known && config["save"] == "" {
			s.report(check, Fail, "none: a restart of Redis loses all messages", KeepRemedy)
			return
		}
		s.report(check, Warn, "snapshots at most: a crash of Redis loses everything since the last one", KeepRemedy)
		return
	}
	switch fsync := config["appendfsync"]; {
	case s.info["aof_last_write_status"] == "err":
		s.report(check, Fail, "append-only file, and the last write to it failed", diskRemedy)
	case !known:
		s.report(check, OK, "append-only file; how often it is synced is unknown, since this user may not run CONFIG GET", "")
	case fsync == "no":
		s.report(check, Warn, "append-only file, appendfsync no: a power cut loses what the kernel has not written yet, about half a minute",
			"run CONFIG SET appendfsync everysec (or always, to lose nothing), and put it into redis.conf")
	case fsync == "always":
		s.report(check, OK, "append-only file, appendfsync always: a power cut loses nothing that was acknowledged", "")
	default:
		s.report(check, OK, "append-only file, appendfsync "+fsync+": a power cut loses about a second", "")
	}
}

// format checks that the prefix holds the format of this version. Other errors are
// left to the checks that follow.
func (e *exam) format(ctx context.Context) {
	format, err := e.store.FormatOf(ctx)
	newer := e.store.After(format)
	switch {
	case errors.Is(err, notify.ErrUnfit):
		found, remedy, _ := strings.Cut(err.Error(), "; ") // which it names behind the fault
		e.report(Format, Fail, found, remedy)
	case err == nil && len(newer) > 0:
		adds := make([]string, len(newer))
		for i := range newer {
			adds[i] = newer[i].Adds
		}
		e.mend(Finding{Check: Format, Act: Upgrade}, fmt.Sprintf("%d, and this version works with %d, which adds %s", format, newer[len(newer)-1].Number, strings.Join(adds, ", ")),
			"run bellhop upgrade, which names the older programs that are left")
	case err == nil:
		e.report(Format, OK, fmt.Sprintf("%d, or nothing yet", format), "")
	}
}

func (s *server) eviction() {
	const check, remedy = "eviction", "run CONFIG SET maxmemory-policy noeviction, and put it into redis.conf"
	policy, limit := s.info["maxmemory_policy"], s.info["maxmemory"]
	switch {
	case policy == "":
		s.report(check, OK, "the server has no eviction", "")
	case policy == "noeviction":
		s.report(check, OK, "noeviction, limit "+memory(s.info), "")
	case limit == "0":
		s.report(check, Warn, "maxmemory-policy "+policy+": harmless while memory has no limit", remedy)
	default:
		s.report(check, Fail, "maxmemory-policy "+policy+", limit "+memory(s.info)+": messages may be evicted", remedy)
	}
}

func memory(info map[string]string) string {
	if human := info["maxmemory_human"]; human != "" && info["maxmemory"] != "0" {
		return human
	}
	return "none"
}
