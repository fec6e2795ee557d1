package reach

import (
	"context"
	"strconv"
)

// enough is the share, in percent, above which what may be left out is, even if publishes
// are not refused: ENOUGH of lua/shared/memory.lua.
const enough = 98

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
	return s.redis.MemoryOf(info), nil
}

// IsFull reports whether publishes are refused for want of memory.
func (m Memory) IsFull() bool { return m.Max > 0 && m.Used >= m.Limit }

// nearlyFull is the share, in percent of the memory that messages may use, from which on use is a warning.
const nearlyFull = 85

// Share returns how much of the memory that messages may use is used, in percent; zero if there is no limit.
func (m Memory) Share() int64 {
	if m.Max == 0 {
		return 0
	}
	return m.Used * 100 / max(m.Limit, 1)
}

// IsNearlyFull reports whether there is little memory left for messages, or none.
func (m Memory) IsNearlyFull() bool { return m.Share() >= nearlyFull }

// MemoryOf returns how full a server is, by the fields of its INFO memory.
func (s *Redis) MemoryOf(info map[string]string) Memory {
	bytes := func(name string) int64 {
		n, _ := strconv.ParseInt(info[name], 10, 64) // zero if Redis does not report it
		return n
	}
	m := Memory{Used: bytes("used_memory") - bytes("mem_not_counted_for_evict"), Max: bytes("maxmemory"), Evicts: mayEvict(info)}
	m.Limit = m.Max * int64(s.share) / 100
	return m
}
