package store

import (
	_ "embed"
	"sync"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/prelude.lua
var prelude string

// A Script is one state transition in Redis: what it uses of prelude.lua,
// followed by a source of its own. [Store.Run] runs it.
type Script struct {
	name     string               // for Store.Observe
	flagged  func() *redis.Script // for Redis 7 and newer
	plain    func() *redis.Script // for the embedded trial server, which knows no flags
	promised bool                 // its answer is a promise
	grows    bool                 // it makes Redis hold more, and begins with room.lua
}

// NewScript returns the script of a source. Its name, that of its file without
// .lua, is what [Store.Observe] tells. It runs even when Redis is out of
// memory, since what it does must not stop half way: a script that moves,
// acknowledges or removes frees more than it takes.
func NewScript(name, source string) *Script {
	return newScript("#!lua flags=allow-oom\n", name, source)
}

// body returns a source behind what it uses of that which scripts share.
func body(source string) string {
	return "local FORMAT = '" + formatMark + "'\n" + oldLink(oldShared(), source)
}

// Promised returns the script as one whose answer is a promise to whoever called,
// such as that a message is published or acknowledged: with
// [Config.WaitReplicas], [Store.Run] answers when so many replicas have it.
func (s *Script) Promised() *Script {
	promised := *s
	promised.promised = true
	return &promised
}

// NewGrowingScript returns a script that is refused as a whole, with ErrFull,
// when Redis is full, or nearly so, and with ErrUnfit while it may evict messages.
func NewGrowingScript(name, source string) *Script {
	s := newScript("#!lua\n", name, room+source)
	s.grows = true
	return s
}

// A script is put together when it runs for the first time: a command that ends
// at once, such as bellhop version, needs none.
func newScript(shebang, name, source string) *Script {
	return &Script{
		name:    name,
		flagged: sync.OnceValue(func() *redis.Script { return redis.NewScript(shebang + body(source)) }),
		plain:   sync.OnceValue(func() *redis.Script { return redis.NewScript(body(source)) }),
	}
}
