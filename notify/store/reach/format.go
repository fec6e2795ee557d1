package reach

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	foundSource      = script.Source("found")
	plainFoundScript = redis.NewScript(foundSource) // for the trial server, too, which knows no flags
	foundScript      = redis.NewScript("#!lua flags=allow-oom\n" + foundSource)
)

// The errors of a transition that did not run: see begin.lua.
const (
	signNoStore = "NOSTORE"
	signFormat  = "FORMAT"
)

// foundRoot marks an empty Redis as a store of the process's layout, with an id that no
// other store has. An existing store stays as it is, and the shard is to have its format. The
// error is an ErrUnfit if that is unknown or the layout another one, or that of the connection.
func (d *shard) foundRoot(ctx context.Context) error {
	missing, err := d.root.marked(ctx, d.layout, true)
	if err == nil && missing {
		if err = d.root.followShards(ctx); err == nil {
			_, err = d.root.marked(ctx, d.layout, false)
		}
	}
	if err == nil {
		d.speak(d.root.format())
	}
	return err
}

// followShards has the root be of the oldest format that a shard has, if there are some: the root was lost.
func (d *shard) followShards(ctx context.Context) error {
	for _, one := range d.known() {
		text, err := one.formatText(ctx)
		if _, format, ok := layoutIn(text); ok && d.knows(format) && format < d.format() {
			d.speak(format)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// found marks a shard as one of the layout. Before that it founds the store.
func (d *shard) found(ctx context.Context, node redis.UniversalClient) error {
	if d.isSharded() {
		if err := d.foundRoot(ctx); err != nil {
			return err
		}
	} else if err := d.notOrphaned(ctx); err != nil {
		return err
	}
	_, err := d.mark(ctx, node, d.layout, false)
	return err
}

// mark writes the format key, unless it is there; if readOnly is set it leaves Redis as it
// is. It reports whether the key was missing. The error is an ErrUnfit if it names another
// format or layout, or that of the connection.
func (d *shard) mark(ctx context.Context, node redis.UniversalClient, l layout, readOnly bool) (missing bool, err error) {
	script, apply := foundScript, 1
	if readOnly {
		apply = 0
	}
	if readOnly || d.fit.Load() == fitTrial {
		script = plainFoundScript
	}
	mine := l.mark(d.format()) + record.NewID()
	if !readOnly { // bookmarks, which are by Redis's clock, are compared with the time in the id
		now, err := node.Time(ctx).Result()
		if err != nil {
			return false, err
		}
		mine = l.mark(d.format()) + record.NewIDAt(now)
	}
	text, err := script.Run(ctx, node, d.keys.Founding(), mine, apply).Text()
	if err != nil {
		return false, err
	}
	return text == mine, d.fits(text, l)
}

// marked is mark at the server that holds the shard.
func (d *shard) marked(ctx context.Context, l layout, readOnly bool) (missing bool, err error) {
	return onNode(ctx, d, func(node redis.UniversalClient) (bool, error) { return d.mark(ctx, node, l, readOnly) })
}

// fits returns an ErrUnfit unless the value of a format key is of a known format and this layout. Then
// calls are of that format from now on.
func (d *shard) fits(text string, l layout) error {
	there, format, ok := layoutIn(text)
	switch {
	case !ok || !d.knows(format):
		return d.otherFormat(text)
	case there != l:
		return d.otherLayout(there)
	case format != d.format():
		d.speak(format)
	}
	return nil
}

// notOrphaned returns an ErrUnfit if there is no store, but shards of one: its root was
// lost, and a store of one shard founded in its place would hide them.
func (d *shard) notOrphaned(ctx context.Context) error {
	pipe := d.client.Pipeline()
	found := make(map[int]*redis.IntCmd)
	for n := 2; n <= MaxShards; n *= 2 {
		found[n] = pipe.Exists(ctx, script.NewKeys(d.prefix, tag(0, n, 0)).Format())
	}
	_, err := pipe.Exec(ctx)
	for n, exists := range found {
		if exists.Val() > 0 {
			return fmt.Errorf("%w at %s: under the prefix %s there are shards of a store of %d, whose key %s is lost; set shards to %d, and it is made anew",
				ErrUnfit, d.where, d.prefix, n, d.root.keys.Format(), n)
		}
	}
	return err
}

// CheckFormat returns an ErrUnfit for a store of another format, or of other shards than
// the process works with, or the error of the connection. It leaves a Redis without a
// store as it is. A transition checks the format itself; CheckFormat is for calls that
// run no script.
func (s *Redis) CheckFormat(ctx context.Context) error {
	return s.each(ctx, func(d *shard) error { return d.checkFormat(ctx) })
}

// CheckFormat is [Redis.CheckFormat] for one shard.
func (s Shard) CheckFormat(ctx context.Context) error {
	d, err := s.resolve(ctx)
	if err != nil {
		return err
	}
	return d.checkFormat(ctx)
}

// checkFormat is CheckFormat for one shard, and for the root if the shard is not marked yet.
func (d *shard) checkFormat(ctx context.Context) error {
	missing, err := d.marked(ctx, d.layout, true)
	if err == nil && missing && d.isSharded() {
		if _, err = d.root.marked(ctx, d.layout, true); err == nil {
			d.speak(d.root.format()) // which the shard will have
		}
	}
	if err != nil && !errors.Is(err, ErrUnfit) {
		return d.explain(ctx, err)
	}
	return err
}

// otherFormat returns the ErrUnfit for a store of another format. text is the
// value of its key, empty for a store from before formats had numbers.
func (d *shard) otherFormat(text string) error {
	format, _, _ := strings.Cut(text, " ")
	has, remedy := fmt.Sprintf("has format %.20s", format), "export it with the version that wrote it, then publish the export with this one under another prefix"
	switch _, number, ok := layoutIn(text); {
	case format == "":
		has, remedy = "is of a version from before formats had numbers", "let that version deliver what is left, and use another prefix with this one"
	case ok && number > d.newest().Number:
		has, remedy = fmt.Sprintf("has format %d", number), "bellhop upgrade was run on it: replace this program by a newer version, or use another prefix"
	}
	return fmt.Errorf("%w at %s: what it holds under the prefix %s %s, and this version of Bellhop works with %s; %s",
		ErrUnfit, d.where, d.prefix, has, spanOf(d.formats), remedy)
}

// cure makes what a script found wrong with the format key right, and reports whether the call may be made again: there
// was no store yet, or it has another known format since. The error is an ErrUnfit, that of the script, or of the connection.
func (d *shard) cure(ctx context.Context, node redis.UniversalClient, err error) (again bool, _ error) {
	switch {
	case redis.HasErrorPrefix(err, signNoStore):
		err = d.found(ctx, node)
	case redis.HasErrorPrefix(err, signFormat):
		_, text, _ := strings.Cut(err.Error(), " ")
		err = d.fits(text, d.layout)
	default:
		return false, err
	}
	return err == nil, err
}
