package outbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/bellhopd/bellhop/daemon/database"
)

// A State is what there is in a database for a relay.
type State struct {
	Backlog
	Lacks   []string // rights of this user that a relay needs; if any, all else is unknown
	Version int      // of the installation
	MaxBody int      // bytes of the largest body that can be published
	Relays  int      // connections of relays
	Pooled  bool     // each transaction may be in another session
}

// lacking returns the rights of a relay that this user lacks.
const lacking = `SELECT needed || ' on bellhop.' || object FROM (VALUES
	('SELECT', 'outbox', has_table_privilege('bellhop.outbox', 'SELECT')),
	('DELETE', 'outbox', has_table_privilege('bellhop.outbox', 'DELETE')),
	('UPDATE (refused, seq)', 'outbox', has_column_privilege('bellhop.outbox', 'refused', 'UPDATE') AND has_column_privilege('bellhop.outbox', 'seq', 'UPDATE')),
	('SELECT', 'outbox_about', has_table_privilege('bellhop.outbox_about', 'SELECT')),
	('SELECT', 'outbox_seq', has_sequence_privilege('bellhop.outbox_seq', 'SELECT'))
) AS rights (needed, object, given) WHERE NOT given`

// present returns what is installed, the process of the session, and how many others are relays.
const present = `SELECT version, max_body, pg_backend_pid(), (SELECT count(*) FROM pg_stat_activity
	WHERE datname = current_database() AND application_name = $1 AND pid <> pg_backend_pid()) FROM bellhop.outbox_about`

// Examine returns what there is in the database for a relay. The error is that of the database, or wraps ErrNotInstalled.
func (b *Outbox) Examine(ctx context.Context) (State, error) {
	s, err := b.examine(ctx)
	if err == nil && len(s.Lacks) == 0 {
		s.Backlog, err = b.Backlog(ctx)
	}
	return s, err
}

func (b *Outbox) examine(ctx context.Context) (s State, err error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return s, b.failed("connect", err)
	}
	defer conn.Release()
	found, _ := conn.Query(ctx, lacking) // CollectRows returns its error
	s.Lacks, err = pgx.CollectRows(found, pgx.RowTo[string])
	if database.Condition(err) == database.NoRight {
		s.Lacks, err = []string{"USAGE on the schema bellhop"}, nil
	}
	if err != nil || len(s.Lacks) > 0 {
		return s, b.failed("ask for rights", err)
	}
	var pid uint32
	err = conn.QueryRow(ctx, present, b.config.ConnConfig.RuntimeParams["application_name"]).Scan(&s.Version, &s.MaxBody, &pid, &s.Relays)
	s.Pooled = conn.Conn().PgConn().PID() != pid
	return s, b.failed("read bellhop.outbox_about", err)
}

// Installing returns the command that installs the outbox, or brings it to this version, and gives this user the rights of a relay.
func (b *Outbox) Installing() string {
	return fmt.Sprintf("bellhop outbox install --url %s --relay %s", b.Address(), b.config.ConnConfig.User)
}
