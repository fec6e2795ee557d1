package reach

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/script"
)

var upgradeScript = script.New("upgrade", script.Promised)

// upgradeRoot is upgradeScript for what is no shard: the mark behind a promised call would be a key that nothing knows. Forgotten, it is made again.
var upgradeRoot = func() *script.Transition {
	t := *upgradeScript
	t.Promised = false
	return &t
}()

// lately is how long ago a library of another version was called, at the most, for whoever calls that to be still there.
const lately = time.Minute

// FormatOf returns the oldest format that a shard or the root has; that of a new store if there is none. Errors: an ErrUnfit for a format that this
// version does not know, or that of the connection; also while a shard is away.
func (s *Redis) FormatOf(ctx context.Context) (oldest int, err error) {
	all, err := s.learned(ctx)
	if err != nil {
		return 0, err
	}
	oldest = s.newest().Number
	for _, d := range all {
		if err := d.checkFormat(ctx); err != nil {
			return 0, err
		}
		oldest = min(oldest, d.format())
	}
	if len(all) == 1 {
		return oldest, nil
	}
	if _, err := s.root.marked(ctx, all[0].layout, true); err != nil {
		return 0, s.root.explain(ctx, err)
	}
	return min(oldest, s.root.format()), nil
}

// After returns the formats that this version knows after one, oldest first.
func (s *Redis) After(format int) []Format {
	return slices.DeleteFunc(slices.Clone(s.formats), func(f Format) bool { return f.Number <= format })
}

// Raise gives all shards the newest format that this version works with, and then the root. It may be repeated: a shard that has the format
// stays as it is. The error is an ErrUnfit, or that of the connection: some shards may have the format by then.
func (s *Redis) Raise(ctx context.Context) error {
	all, err := s.learned(ctx)
	if err != nil {
		return err
	}
	for k := len(all) - 1; k >= 0; k-- {
		if err := all[k].raise(ctx, upgradeScript); err != nil {
			return err
		}
	}
	if len(all) == 1 {
		return nil
	}
	root := s.newShard(0, all[0].layout, "0")
	root.fit.Store(all[0].fit.Load())
	return root.raise(ctx, upgradeRoot)
}

func (d *shard) raise(ctx context.Context, upgrade *script.Transition) error {
	for to := d.newest().Number; ; { // another process may raise it, too
		if err := d.checkFormat(ctx); err != nil || d.format() == to {
			return err
		}
		if text, err := d.formatText(ctx); err != nil || text == "" { // none is there yet: it will have that of the root
			return err
		}
		reply, err := d.run(ctx, upgrade, nil, []any{d.layout.mark(to)})
		if err != nil {
			return err
		}
		if err := reply.End(); err != nil {
			return err
		}
	}
}

// newestIn finds in the text of a library the newest format that its version works with.
var newestIn = regexp.MustCompile(`(?m)^local NEWEST_FORMAT = (\d+)$`)

// CalledLately returns how long ago a library whose version does not work with a format was called, if that was lately, and whether all servers
// were asked: one that runs scripts cannot be. The error is that of the connection.
func (s *Redis) CalledLately(ctx context.Context, format int) (ago time.Duration, was, all bool, err error) {
	shards, err := s.Shards(ctx)
	all = true
	for _, one := range shards {
		asked := false
		err = one.onServer(ctx, func(d *shard, node redis.UniversalClient) error {
			others, err := otherLibraries(ctx, node)
			for _, o := range others {
				if o.newest < format && o.idle <= lately && (!was || o.idle < ago) {
					ago, was = o.idle, true
				}
			}
			asked = err == nil && d.wayTo(node).refusal() == nil
			return err
		})
		if err != nil {
			return ago, was, false, err
		}
		all = all && asked
	}
	return ago, was, all, err
}

// newestOf returns the newest format that the version of a library works with.
func newestOf(text string) int {
	found := newestIn.FindStringSubmatch(text)
	if found == nil {
		return formats[0].Number
	}
	n, _ := strconv.Atoi(found[1])
	return n
}
