package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/rehearse.lua
var rehearseSource string

// CheckRepair is a Check that also requires those rights of RepairRights that
// scripts need.
func (s *Store) CheckRepair(ctx context.Context) error {
	if err := s.Check(ctx); err != nil || s.fit.Load() == fitTrial {
		return err
	}
	return s.checkRights(ctx, s.commands()+" "+calledByRepair, RepairRights(s.keys.prefix))
}

// commands returns the commands that a script, or the wait behind it, needs.
func (s *Store) commands() string {
	if s.replicas > 0 {
		return runs + " " + called + " " + waits
	}
	return runs + " " + called
}

// checkRights rehearses commands on the server that holds the shard. rights are
// those that the user should have, for the remedy.
func (s *Store) checkRights(ctx context.Context, commands, rights string) error {
	_, err := onNode(ctx, s, func(node redis.UniversalClient) (struct{}, error) {
		return struct{}{}, s.rehearse(ctx, node, commands, rights)
	})
	if err != nil {
		s.fit.Store(fitUnknown)
		return s.explain(ctx, err)
	}
	return nil
}

// rehearse asks a server whether its user may call commands, and publish to every
// kind of channel.
func (s *Store) rehearse(ctx context.Context, node redis.Scripter, commands, rights string) error {
	channels := ""
	for _, channel := range []string{s.keys.Head(), s.keys.Wake("topic"), s.keys.Broadcast("topic"), s.keys.Death("topic")} {
		channels += " publish|" + channel
	}
	// One argument for all: Redis hangs up on a client that sends many before its password.
	words := strings.Replace(commands, " publish", channels, 1)
	reply, err := node.Eval(ctx, rehearseSource, []string{s.keys.Mark()}, words).Slice()
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
// Redis may have been restarted with other rights. A server that does not hold the
// shard does not matter: a sentinel, or another server of a Cluster.
func (s *Store) onConnect(ctx context.Context, conn *redis.Conn) error {
	if wasSetUp, ok := ctx.Value(noteSetUp{}).(*bool); ok {
		*wasSetUp = true
	}
	if s.fit.Load() == fitTrial {
		return nil
	}
	err := s.refused(s.rehearse(ctx, conn, s.commands(), Rights(s.keys.prefix)))
	if err == nil || endOf(ctx) != nil {
		return err
	}
	if _, moved := redis.IsMovedError(err); moved {
		return nil
	}
	s.fit.Store(fitUnknown)
	var reply redis.Error
	if !Refused(err) && errors.As(err, &reply) || ctx.Value(unrehearsed{}) != nil {
		return nil // such as LOADING: the next call checks again
	}
	return fmt.Errorf("rehearse: %w", err) // go-redis strips the outermost layer
}
