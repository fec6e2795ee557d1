package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/fault"
)

// DefaultMemoryShare is the share of Redis's maxmemory, in percent, above which publishes are refused.
const DefaultMemoryShare = 90

// enough is the share, in percent, above which what may be left out is, even if publishes
// are not refused: ENOUGH of lua/shared/memory.lua.
const enough = 98

// ErrFull is the error of a publish for which Redis has no memory left: the share
// of maxmemory for messages (Config.MemoryShare) is in use, or all of maxmemory.
// Nothing was published. All else goes on, and publishes succeed again once memory
// is free.
var ErrFull = errors.New("redis is full")

// memoryError returns an ErrFull if Redis or a script answered that memory is full,
// an ErrUnfit if a script answered that Redis may evict messages, and any other
// error as it is.
func (d *shard) memoryError(err error) error {
	switch {
	case redis.HasErrorPrefix(err, "FULL"), redis.HasErrorPrefix(err, "OOM"):
		return fmt.Errorf("%w: %w", ErrFull, err)
	case redis.HasErrorPrefix(err, "EVICTS"):
		return d.evicts(strings.TrimPrefix(err.Error(), "EVICTS "))
	}
	return err
}

// evicts returns the ErrUnfit for a policy that lets Redis evict messages.
func (d *shard) evicts(policy string) error {
	return fmt.Errorf("%w at %s: it may evict messages (maxmemory-policy %s); run CONFIG SET maxmemory-policy noeviction", ErrUnfit, d.place(), policy)
}

// mayEvict reports whether a Redis with these fields of INFO may evict messages.
func mayEvict(info map[string]string) bool {
	policy := info["maxmemory_policy"]
	return info["maxmemory"] != "0" && policy != "noeviction" && policy != ""
}

// memoryShare returns a share in percent, or an ErrInvalid.
func memoryShare(percent int) (int, error) {
	if percent == 0 {
		percent = DefaultMemoryShare
	}
	if percent < 1 || percent > 100 {
		return 0, fault.New("memory_share", "memory share %d%%: use 1 to 100", percent)
	}
	return percent, nil
}

// Memory is how full a Redis is, in bytes.
type Memory struct {
	Used  int64 // of what counts against Max: without the buffers of replicas and of the append-only file
	Max   int64 // Redis's maxmemory; zero: it has no limit
	Limit int64 // above which publishes are refused; zero: there is none

	Evicts bool // it may evict messages, so publishes are refused
}

// Memory returns how full the shard's server is. The trial server does not report that: its
// Memory is zero. The error is that of the connection.
func (s Shard) Memory(ctx context.Context) (Memory, error) {
	info, err := s.Info(ctx, "memory")
	if err != nil {
		return Memory{}, err
	}
	return s.store.MemoryOf(info), nil
}

// IsFull reports whether publishes are refused for want of memory.
func (m Memory) IsFull() bool { return m.Max > 0 && m.Used >= m.Limit }

// MemoryOf returns how full a server is, by the fields of its INFO memory.
func (s *Store) MemoryOf(info map[string]string) Memory {
	bytes := func(name string) int64 {
		n, _ := strconv.ParseInt(info[name], 10, 64) // zero if Redis does not report it
		return n
	}
	m := Memory{Used: bytes("used_memory") - bytes("mem_not_counted_for_evict"), Max: bytes("maxmemory"), Evicts: mayEvict(info)}
	m.Limit = m.Max * int64(s.share) / 100
	return m
}
