package store

import (
	"io/fs"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Linked returns each script by its file, as stores of one shard run it, as those of several do, and the same in database 15.
func Linked() (all [4]map[string]*redis.Script, err error) {
	for i, v := range []variant{{}, {sharded: true}, {database: 15}, {sharded: true, database: 15}} {
		all[i] = make(map[string]*redis.Script)
		err = fs.WalkDir(luaFiles, "lua", func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".lua") && !strings.HasPrefix(path, "lua/shared/") && !alone[path] {
				all[i][path] = linkFile(path, false, v).flagged
			}
			return err
		})
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// Abandon closes all connections, as where they lead to no master any more.
func (s *Store) Abandon() { s.connections.abandon("", time.Now()) }

// Rehearsed returns the commands that are rehearsed because scripts call them, those of repair among them.
func Rehearsed() []string { return strings.Fields(called + " " + calledByRepair) }

// IDs makes ids like NewID, as another process would.
type IDs = ids

// Next returns the next id at a time in Unix milliseconds.
func (s *ids) Next(now int64) string { return s.next(now) }

// Exhaust leaves no random number above that of the last id.
func (s *ids) Exhaust() { s.random = randoms - 1 }
