package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

// SQL returns the statement that publishes a message in a transaction of a PostgreSQL database that
// has an outbox, and its arguments, for any driver:
//
//	query, args, err := notify.SQL(m)
//	...
//	_, err = tx.ExecContext(ctx, query, args...)
//
// The message is published once the transaction commits, and never if it is rolled back. The answer
// is one text, its id. A message that does not say what happens if its id is in use is kept (Keep),
// and not refused as by a Publisher: nobody would be told. Delay counts from the call.
//
// The error is a joined Fault, as of a publish. The database refuses a body that is too large for it.
func SQL(m Message) (query string, args []any, err error) {
	err = m.check(math.MaxInt)
	if m.Restore != nil {
		err = errors.Join(err, fault.New("restore", "restore: an outbox has new messages alone; leave it out"))
	}
	if err != nil {
		return "", nil, err
	}
	m.Due, _ = calendar.Local(m.Due, m.Zone) // check refuses a fault
	m.Zone = ""
	query, args = "SELECT bellhop.publish($1, $2::bytea", []any{m.Topic, append([]byte{}, m.Body...)}
	add := func(name, kind string, value any) {
		args = append(args, value)
		query += fmt.Sprintf(", %q => $%d::%s", name, len(args), kind)
	}
	for _, f := range fields.In[Message]() {
		if value := reflect.ValueOf(&m).Elem().FieldByIndex(f.Index); !value.IsZero() {
			kind, is := asSQL(value)
			add(f.Name, kind, is)
		}
	}
	if len(m.Headers) > 0 {
		text, err := json.Marshal(m.Headers)
		if err != nil {
			return "", nil, err
		}
		add("headers", "jsonb", string(text))
	}
	if m.Broadcast {
		add("broadcast", "boolean", true)
	}
	return query + ")", args, nil
}

// asSQL returns the type of a field's value in SQL, and a value that all drivers take for it.
func asSQL(value reflect.Value) (kind string, is any) {
	switch is := value.Interface().(type) {
	case time.Duration:
		return "interval", interval(is)
	case time.Time:
		return "timestamptz", is.Add(time.Microsecond - 1).UTC().Format("2006-01-02T15:04:05.999999Z")
	case int:
		return "integer", int64(is)
	}
	return "text", value.String()
}

// interval returns a duration, rounded up to a microsecond, as SQL has it. PostgreSQL has no unit below, and
// before version 15 no number beyond 2^31 in front of one.
func interval(d time.Duration) string {
	us := d.Microseconds()
	if d%time.Microsecond > 0 {
		us = min(us+1, math.MaxInt64/1000)
	}
	const hour = int64(time.Hour / time.Microsecond)
	return fmt.Sprintf("%d hours %d.%06d seconds", us/hour, us%hour/1e6, us%1e6)
}
