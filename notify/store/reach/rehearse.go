package reach

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/script"
)

var rehearseSource = script.Source("rehearse")

// CheckRepair is a Check that also requires those rights of RepairRights that
// scripts need.
func (s *Redis) CheckRepair(ctx context.Context) error {
	if err := s.Check(ctx); err != nil {
		return err
	}
	return s.each(ctx, func(d *shard) error {
		if d.fit.Load() == fitTrial {
			return nil
		}
		return d.checkRights(ctx, d.commands()+" "+calledByRepair, d.RepairRights())
	})
}

// commands returns the commands that a script, or the wait behind it, needs.
func (d *shard) commands() string {
	commands := runs + " " + calledIn(d.layout.shards)
	if d.replicas > 0 {
		commands += " " + waits
	}
	return commands
}

// checkRights rehearses commands on the server that holds the shard. rights are
// those that the user should have, for the remedy.
func (d *shard) checkRights(ctx context.Context, commands, rights string) error {
	_, err := onNode(ctx, d, func(node redis.UniversalClient) (struct{}, error) {
		return struct{}{}, d.rehearse(ctx, node, commands, rights)
	})
	if err != nil {
		d.fit.Store(fitUnknown)
		return d.explain(ctx, err)
	}
	return nil
}

// rehearse asks a server whether its user may call commands, and publish to every
// kind of channel.
func (d *shard) rehearse(ctx context.Context, node redis.Scripter, commands, rights string) error {
	command, channels := " publish", ""
	if d.isSharded() {
		command = " " + spublish
	}
	for _, channel := range []string{d.keys.Nudge(), d.keys.Wake("topic"), d.keys.Broadcast("topic"), d.keys.Death("topic")} {
		channels += command + "|" + d.Heard(channel)
	}
	// One argument for all: Redis hangs up on a client that sends many before its password.
	words := strings.Replace(commands, command, channels, 1)
	keys, args := []string{d.keys.Mark()}, []any{words}
	if d.isSharded() { // no key of the call: any server of a Cluster answers then, whichever shards it holds
		keys, args = nil, []any{words, d.keys.Mark()}
	}
	reply, err := node.Eval(ctx, rehearseSource, keys, args...).Slice()
	if err != nil {
		return err
	}
	if len(reply) != 2 {
		return fmt.Errorf("a rehearsal of %d fields", len(reply))
	}
	denied, unknown := commandsIn(reply[0]), commandsIn(reply[1])
	if len(denied)+len(unknown) > 0 {
		return missing(denied, unknown, rights)
	}
	return nil
}

// commandsIn returns the commands in a reply of rehearse.lua as Redis writes them.
func commandsIn(reply any) (commands []string) {
	all, _ := reply.([]any)
	for _, one := range all {
		words, _ := one.(string)
		command, first, _ := strings.Cut(words, "|")
		commands = append(commands, strings.TrimSpace(strings.ToUpper(command)+" "+first))
	}
	return commands
}

// unrehearsed marks the context of a call that may use a connection whose
// rehearsal failed.
type unrehearsed struct{}

// onConnect rehearses on a new connection, before anything else is sent on it:
// Redis may have been restarted with other rights, or with another library of functions. A server that does not hold the one
// shard does not matter: a sentinel, or another server of a Cluster.
func (s *Redis) onConnect(ctx context.Context, conn *redis.Conn) error {
	if wasSetUp, ok := ctx.Value(noteSetUp{}).(*bool); ok {
		*wasSetUp = true
	}
	all := s.known()
	d := all[0]
	if d.fit.Load() == fitTrial {
		return nil
	}
	if err := s.recognize(ctx, conn); err != nil {
		return fmt.Errorf("functions: %w", err)
	}
	err := d.refused(d.rehearse(ctx, conn, d.commands(), d.rights()))
	if err == nil || endOf(ctx) != nil {
		return err
	}
	if _, moved := redis.IsMovedError(err); moved {
		return nil
	}
	for _, d := range all {
		d.fit.CompareAndSwap(fitRedis, fitUnknown) // a Redis in memory, which knows no rehearsal, may have been recognized meanwhile
	}
	var reply redis.Error
	if !Refused(err) && errors.As(err, &reply) || ctx.Value(unrehearsed{}) != nil {
		return nil // such as LOADING: the next call checks again
	}
	return fmt.Errorf("rehearse: %w", err) // go-redis strips the outermost layer
}

// Rights returns the least rights of a user of the store: see [Rights].
func (s *Redis) Rights() string { return s.known()[0].rights() }

// RepairRights returns the rights of a user who repairs the store: see [RepairRights].
func (s *Redis) RepairRights() string { return s.Rights() + allow(sentByRepair, calledByRepair) }

// rights returns the least rights for the store.
func (d *shard) rights() string { return rightsIn(d.database, d.prefix, d.layout.shards) }

// refused returns a RightsError, with the remedy, for a refusal by Redis, and any
// other error as it is.
func (d *shard) refused(err error) error {
	var known *RightsError
	switch {
	case errors.As(err, &known), SentinelsRefuse(err):
	case refusal(err, denials):
		return &RightsError{Fault: err.Error(), Remedy: grant(d.rights()), reply: err}
	case refusal(err, renamings):
		return &RightsError{Fault: err.Error(), Remedy: undoRename, reply: err}
	}
	return err
}
