package outbox

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// Version is that of the installation which this program makes.
const Version = 1

// ErrNotInstalled is the error of a database that has no outbox.
var ErrNotInstalled = errors.New("the database has no outbox; make one: bellhop outbox install")

// The relay holds this advisory lock while it sleeps. Publishers hold it in share mode until their
// transactions end; one that does not get it notifies the channel.
const (
	lockClass = 1650814060 // "bell"
	lock      = 1
	channel   = "bellhop_outbox"
)

// installWithin bounds an installation, which may have to wait for another change of the schema.
const installWithin = 30 * time.Second

// InstallOptions are the options of Install. The zero value is the default.
type InstallOptions struct {
	Grant   []string // roles that may publish; others keep what they may
	Relay   []string // roles of daemons that relay
	MaxBody int      // bytes of the largest body; zero: as it was, at first notify.DefaultMaxBody
	NewID   bool     // the database is a copy of another one, which keeps the id
}

// An Installation is what Install made.
type Installation struct {
	From    int    // version that was there; zero: none
	ID      string // of the outbox
	MaxBody int    // bytes of the largest body
}

// Check returns a joined notify.Fault for what is wrong with the options.
func (o InstallOptions) Check() error {
	var faults []error
	if o.MaxBody < 0 || o.MaxBody > mostBody {
		faults = append(faults, fault.New("max_body", "max body %d: use 1 to %d, or 0 for what it was, at first %d", o.MaxBody, mostBody, notify.DefaultMaxBody))
	}
	if slices.Contains(o.Grant, "") {
		faults = append(faults, fault.New("grant", "grant: it is empty; name a role"))
	}
	if slices.Contains(o.Relay, "") {
		faults = append(faults, fault.New("relay", "relay: it is empty; name a role"))
	}
	return errors.Join(faults...)
}

// mostBody is as many bytes as BELLHOP_MAX_BODY may be.
const mostBody = 64 << 20

// Print returns the statements of Install, for whoever runs them by other means.
func Print(o InstallOptions) (string, error) {
	if err := o.Check(); err != nil {
		return "", err
	}
	o.MaxBody = cmp.Or(o.MaxBody, notify.DefaultMaxBody)
	return o.script()
}

// Install makes the outbox in a database, or brings it to this version: rows, and who may
// publish, stay. The error is a notify.Fault, or that of the database.
func Install(ctx context.Context, in database.Address, o InstallOptions) (made Installation, err error) {
	if err := errors.Join(in.Check(), o.Check()); err != nil {
		return Installation{}, err
	}
	err = change(ctx, in, "install", func(tx pgx.Tx) error {
		if made.From, made.MaxBody, err = installed(ctx, tx); err != nil {
			return err
		}
		made.MaxBody = cmp.Or(o.MaxBody, made.MaxBody, notify.DefaultMaxBody)
		o.MaxBody = made.MaxBody
		statements, err := o.script()
		if err != nil {
			return err
		}
		if _, err := tx.Conn().PgConn().Exec(ctx, statements).ReadAll(); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "SELECT id::text FROM bellhop.outbox_about").Scan(&made.ID)
	})
	return made, err
}

// installed returns the version and the largest body of the outbox that is there, zeros for none and for what is foreign.
func installed(ctx context.Context, tx pgx.Tx) (version, maxBody int, err error) {
	const look = `SELECT CASE WHEN has_schema_privilege(to_regnamespace('bellhop'), 'USAGE')
		THEN coalesce(has_table_privilege(to_regclass('bellhop.outbox_about'), 'SELECT'), false) ELSE false END`
	var there bool
	if err := tx.QueryRow(ctx, look).Scan(&there); err != nil || !there {
		return 0, 0, err
	}
	var row []byte // as JSON, since a foreign table has other columns
	err = tx.QueryRow(ctx, "SELECT to_json(a)::text FROM bellhop.outbox_about a").Scan(&row)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, 0, nil
	}
	var about struct {
		Version int `json:"version"`
		MaxBody int `json:"max_body"`
	}
	if err == nil {
		_ = json.Unmarshal(row, &about) // what is foreign is refused by the statements
	}
	return about.Version, about.MaxBody, err
}

// Uninstall removes the outbox from a database, and the schema bellhop if nothing else is in it.
// It returns how many rows went with it. Errors: a notify.Fault, ErrNotInstalled, or that of the
// database.
func Uninstall(ctx context.Context, from database.Address) (rows int, err error) {
	if err := from.Check(); err != nil {
		return 0, err
	}
	err = change(ctx, from, "uninstall", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "LOCK TABLE bellhop.outbox, bellhop.outbox_about IN ACCESS EXCLUSIVE MODE"); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, "SELECT count(*) FROM bellhop.outbox").Scan(&rows); err != nil {
			return err
		}
		_, err := tx.Conn().PgConn().Exec(ctx, removal).ReadAll()
		return err
	})
	if err != nil {
		rows = 0
	}
	return rows, err
}

// removal removes the outbox.
const removal = `DO $$
DECLARE
	publish regprocedure;
BEGIN
	FOR publish IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'bellhop'::regnamespace AND p.proname = 'publish' LOOP
		EXECUTE format('DROP ROUTINE %s', publish);
	END LOOP;
	DROP TABLE bellhop.outbox, bellhop.outbox_about;
	BEGIN
		DROP SCHEMA bellhop;
	EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN -- the archive's, or it is another's
	END;
END $$`

// remedies are those of conditions.
var remedies = map[string]string{
	database.LockTimeout: "something else, such as a transaction that published and is open, holds it up: try again",
	"42704":              "make the role first: CREATE ROLE NAME LOGIN", // undefined object
	"2BP01":              "something else in the database depends on it: remove that first, or make it anew behind",
}

// change changes the outbox in a transaction.
func change(ctx context.Context, in database.Address, doing string, f func(pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, installWithin)
	defer cancel()
	doing = fmt.Sprintf("outbox at %s: %s", in, doing)
	config, err := in.Config()
	if err != nil {
		return err
	}
	conn, err := database.Connect(ctx, config)
	if err != nil {
		return database.Failed(doing, err, remedies)
	}
	err = database.Change(ctx, conn, f)
	_ = conn.Close(ctx) // what was to be done is done, or not, however it ends
	if condition := database.Condition(err); condition == database.NoTable || condition == database.NoSchema {
		return fmt.Errorf("outbox at %s: %w", in, ErrNotInstalled)
	}
	return database.Failed(doing, err, remedies)
}

//go:embed install.sql
var installation string

var statements = template.Must(template.New("install.sql").Funcs(template.FuncMap{"lit": literal}).Parse(installation))

// script returns the statements of an installation.
func (o InstallOptions) script() (string, error) {
	var text bytes.Buffer
	err := statements.Execute(&text, o.data())
	return text.String(), err
}

// data returns what the statements have in their places.
func (o InstallOptions) data() map[string]any {
	all := parameters()
	types, named, passed, passedJSON := "", "", "", ""
	for i, p := range all {
		types += ", " + p.Type
		named += ", " + p.Name + " " + p.Type + " DEFAULT " + cmp.Or(p.Default, "NULL")
		passed += fmt.Sprintf(", $%d", i+3)
		if p.Key == "content_type" {
			passedJSON += fmt.Sprintf(", coalesce($%d, 'application/json')", i+3)
		} else {
			passedJSON += fmt.Sprintf(", $%d", i+3)
		}
	}
	signatures := make([]string, 0, 3)
	for _, body := range []string{"bytea", "text", "jsonb"} {
		signatures = append(signatures, "bellhop.publish(text, "+body+types+")")
	}
	return map[string]any{
		"Version": Version, "MaxBody": o.MaxBody, "NewID": o.NewID, "Grant": quoted(o.Grant), "Relay": quoted(o.Relay),
		"Parameters": named, "Passed": passed, "PassedJSON": passedJSON, "Signatures": signatures, "Functions": strings.Join(signatures, ", "), "Asked": asked(all),
		"MaxTopic": record.MaxTopic, "MaxID": record.MaxID, "MaxHeaders": record.MaxHeaders, "MaxHeaderBytes": record.MaxHeaderBytes,
		"Control": control, "LockClass": lockClass, "Lock": lock, "Channel": channel,
	}
}

// quoted returns names of roles as SQL has them.
func quoted(roles []string) (all []string) {
	for _, role := range roles {
		all = append(all, pgx.Identifier{role}.Sanitize())
	}
	return all
}

// literal returns a text as SQL has it. It has no backslash, which depends on the session.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// control is an expression of SQL that matches what is not printable.
const control = "('[' || chr(1) || '-' || chr(31) || chr(127) || ']')"

// A parameter is one of the function publish, behind the body.
type parameter struct {
	Key     string // in a JSON line
	Name    string // in SQL
	Type    string
	Default string // empty: NULL
	Words   string // for it in a sentence
	Without string // the parameter that excludes it
	Given   string // an expression that is true where it is given
	Shown   string // an expression of its value, for people
	Value   string // an expression of its value in a JSON line
	Wrong   []wrong
}

// A wrong is what a parameter must not be.
type wrong struct{ If, Said string } // expressions

// reserved are the names of parameters that are words of SQL.
var reserved = []string{"then", "group"}

// parameters returns those of the function publish behind the body: the described fields of a
// message, but zones, since a time of SQL has its offset; then headers and broadcast.
func parameters() (all []parameter) {
	described := fields.In[notify.Message]()
	for _, f := range described {
		if !slices.ContainsFunc(described, func(of fields.Field) bool { return of.Zone == f.Name }) {
			all = append(all, parameterOf(f))
		}
	}
	return append(all, parameter{Key: "headers", Name: "headers", Type: "jsonb"}, parameter{Key: "broadcast", Name: "broadcast", Type: "boolean", Default: "false"})
}

// asked returns those of parameters that have a member of a JSON line by their key: all but the id, headers and broadcast.
func asked(all []parameter) []parameter {
	return slices.DeleteFunc(slices.Clone(all), func(p parameter) bool { return p.Given == "" || p.Key == "id" })
}

// parameterOf returns the parameter of a field.
func parameterOf(f fields.Field) parameter {
	p := parameter{Key: f.Name, Name: f.Name, Without: f.Without}
	if slices.Contains(reserved, f.Name) {
		p.Name = strconv.Quote(f.Name)
	}
	if f.Of == "message" {
		p.Wrong = append(p.Wrong, wrong{"broadcast", literal(": a broadcast has none; leave it out")})
	}
	field := reflect.TypeFor[notify.Message]().FieldByIndex(f.Index)
	switch field.Type {
	case reflect.TypeFor[time.Duration]():
		p.duration(f, field.Tag)
	case reflect.TypeFor[time.Time]():
		p.time(f)
	case reflect.TypeFor[int]():
		least, most := f.Range()
		p.Type, p.Given, p.Shown, p.Value = "integer", p.Name+" <> 0", p.Name, p.Name
		p.refuse(f, -1, fmt.Sprintf("%s NOT BETWEEN %d AND %d", p.Name, least, most))
	default:
		p.text(f, field.Tag)
	}
	return p
}

func (p *parameter) text(f fields.Field, tag reflect.StructTag) {
	p.Type, p.Given, p.Shown, p.Value = "text", p.Name+` COLLATE "C" <> ''`, "to_json(left("+p.Name+", 100))", p.Name
	switch {
	case f.Enum() != nil:
		var all []string
		for _, one := range f.Enum() {
			all = append(all, literal(one))
		}
		p.refuse(f, "\n", fmt.Sprintf(`%s COLLATE "C" NOT IN (%s)`, p.Name, strings.Join(all, ", ")))
	case tag.Get("words") != "":
		p.refuse(f, "\n", fmt.Sprintf(`octet_length(%s) > %s OR %[1]s COLLATE "C" !~ %[3]s`, p.Name, tag.Get("maxLength"), literal(tag.Get("pattern"))))
	default:
		p.refuse(f, "\n", fmt.Sprintf(`octet_length(convert_to(%s, 'UTF8')) > %s OR %[1]s COLLATE "C" ~ %[3]s`, p.Name, tag.Get("maxLength"), control))
	}
}

func (p *parameter) duration(f fields.Field, tag reflect.StructTag) {
	seconds := "extract(epoch FROM " + p.Name + ")"
	month := "extract(month FROM " + p.Name + ") <> 0 OR extract(year FROM " + p.Name + ") <> 0"
	p.Type, p.Given, p.Shown, p.Value = "interval", seconds+" <> 0 OR "+month, "quote_literal("+p.Name+"::text)", "round(("+seconds+" * 1000000)::numeric) || 'us'"
	said := literal(": a month has no length; use days")
	if f.Name == "delay" {
		said = literal(": a month has no length; use days, or due => now() + interval ") + " || " + p.Shown
	}
	p.Wrong = append(p.Wrong, wrong{month, said})
	least, most := f.Range()
	if tag.Get("longest") != "" {
		p.refuse(f, time.Duration(-1), fmt.Sprintf("%s NOT BETWEEN %s AND %s", seconds, inSeconds(least), inSeconds(most)))
		return
	}
	p.refuse(f, time.Duration(-1), seconds+" < "+inSeconds(least))
	_, err := fields.ParseDuration(f.Name, "1000000d")
	_, said = cutFault(err)
	p.Wrong = append(p.Wrong, wrong{seconds + " > 9223372036.854775", literal(said)}) // the longest time.Duration
}

// inSeconds returns milliseconds in seconds.
func inSeconds(ms int64) string { return fmt.Sprintf("%d.%03d", ms/1000, ms%1000) }

func (p *parameter) time(f fields.Field) {
	p.Type, p.Given, p.Shown, p.Value = "timestamptz", p.Name+" IS NOT NULL", "quote_literal("+p.Name+"::text)", "to_char("+p.Name+` AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
	p.refuse(f, time.UnixMilli(-1), p.Name+" < '1970-01-01 00:00:00+00'")
	p.refuse(f, record.MaxDue.Add(1), p.Name+" > '"+record.MaxDue.Format("2006-01-02 15:04:05.999")+"+00'")
}

// refuse adds an expression that is true of values like a bad one, with what a publish says of that.
func (p *parameter) refuse(f fields.Field, bad any, condition string) {
	var m notify.Message
	field := reflect.ValueOf(&m).Elem().FieldByIndex(f.Index)
	field.Set(reflect.ValueOf(bad).Convert(field.Type()))
	said := ""
	p.Words, said = cutFault(fields.Check(&m, false))
	p.Wrong = append(p.Wrong, wrong{condition, literal(said)})
}

// cutFault returns the words for a field in the sentence of a Fault, and what that says behind the value.
func cutFault(err error) (words, said string) {
	field, said, _ := strings.Cut(strings.TrimPrefix(err.Error(), fault.ErrInvalid.Error()+" "), ": ")
	return field[:strings.LastIndexByte(field, ' ')], ": " + said
}
