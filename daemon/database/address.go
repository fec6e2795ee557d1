package database

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bellhopd/bellhop/notify/regular"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// connectWithin bounds how long a connection may take to be made.
const connectWithin = 5 * time.Second

// secrets are the parameters of a URL that hold a secret.
var secrets = []string{"password", "sslpassword"}

// execMode is the driver's parameter of a URL that names how it runs statements.
const execMode = "default_query_exec_mode"

// hidden stands for a password that is not shown.
const hidden = "xxxxx"

// grammar is how the URL of a database is written.
const grammar = "use postgres://USER@HOST:PORT/DATABASE, and a file for the password"

// An Address is where a database is, and how to log in.
type Address struct {
	URL          string // postgres://USER@HOST/DATABASE, with parameters as libpq has them; required
	PasswordFile string // read for each connection; overrides a password in URL; empty: that of URL
}

// String returns the URL without its passwords.
func (a Address) String() string { return Redact(a.URL) }

// Check returns a joined notify.Fault for a wrong url, and for a password_file that cannot
// be read.
func (a Address) Check() error {
	_, err := a.Config()
	var secret error
	if a.PasswordFile != "" {
		_, secret = a.password()
	}
	return errors.Join(err, fault.Renamed("password_file", secret))
}

// parse reads the URL of a database. The error is a notify.Fault, which does not repeat
// the URL: it may hold a password.
func parse(raw string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	switch {
	case err != nil:
		return nil, fault.New("url", "url: it is no URL; %s. Write %%40 for an @ in a password, and %%2F for a /", grammar)
	case u.Scheme != "postgres" && u.Scheme != "postgresql":
		return nil, fault.New("url", "url: it does not begin with postgres://; %s", grammar)
	case u.Opaque != "" || u.Fragment != "":
		return nil, fault.New("url", "url: it has no host, or an unescaped # or ?; %s", grammar)
	}
	if _, err := url.ParseQuery(u.RawQuery); err != nil {
		return nil, fault.New("url", "url: its parameters, behind the ?, cannot be read; %s", grammar)
	}
	return u, nil
}

// Redact returns the URL of a database without its passwords.
func Redact(raw string) string {
	if raw == "" {
		return ""
	}
	u, err := parse(raw)
	if err != nil {
		return "[unreadable]"
	}
	shown, _ := withoutSecrets(u)
	return shown.String()
}

// HasPassword reports whether the URL of a database has a password in it.
func HasPassword(raw string) bool {
	u, err := parse(raw)
	if err != nil {
		return false
	}
	_, found := withoutSecrets(u)
	return len(found) > 0
}

// withoutSecrets returns a URL with its passwords hidden, and the passwords.
func withoutSecrets(u *url.URL) (shown *url.URL, found []string) {
	shown = &url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host, Path: u.Path}
	if password, ok := u.User.Password(); ok {
		shown.User = url.UserPassword(u.User.Username(), hidden)
		found = append(found, password)
	}
	query := u.Query()
	for _, name := range secrets {
		if query.Has(name) {
			found = append(found, query.Get(name))
			query.Set(name, hidden)
		}
	}
	shown.RawQuery = query.Encode()
	return shown, found
}

// Config returns how connections are made, with the limits of a pool of its own. The error
// is a notify.Fault. The driver's own parser does not see passwords first, since it repeats
// in errors what it cannot read.
func (a Address) Config() (*pgxpool.Config, error) {
	u, err := parse(a.URL)
	if err != nil {
		return nil, err
	}
	safe, _ := withoutSecrets(u)
	if _, err := pgxpool.ParseConfig(safe.String()); err != nil {
		return nil, fault.New("url", "url: %w; %s", lined{err}, grammar)
	}
	config, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return nil, fault.New("url", "url: a password in it cannot be read; %s", grammar)
	}
	conn := config.ConnConfig
	conn.RuntimeParams["client_encoding"] = "UTF8" // else it is that of the database, which would take bytes as they are
	if conn.RuntimeParams["application_name"] == "" {
		conn.RuntimeParams["application_name"] = "bellhop"
	}
	if !u.Query().Has(execMode) { // statements that are prepared fail behind PgBouncer, where transactions share sessions
		conn.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if conn.ConnectTimeout == 0 || conn.ConnectTimeout > connectWithin {
		conn.ConnectTimeout = connectWithin
	}
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error { return a.login(c) }
	return config, nil
}

// Connect makes a connection that is in no pool, as a Config of an Address says.
func Connect(ctx context.Context, of *pgxpool.Config) (*pgx.Conn, error) {
	config := of.ConnConfig.Copy()
	if err := of.BeforeConnect(ctx, config); err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, config)
}

// login sets the password of a new connection, if that is in a file.
func (a Address) login(c *pgx.ConnConfig) (err error) {
	if a.PasswordFile != "" {
		c.Password, err = a.password()
	}
	return err
}

func (a Address) password() (string, error) {
	text, err := regular.Read(a.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("password file of the database: %w", err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}
