package subscribers

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/bellhopd/bellhop/notify/store"
)

// HandleJSON sets the handler of a topic whose bodies are JSON of a type, as
// Subscriber.Handle does. The handler gets the decoded body: unknown fields are
// ignored, and null is the zero value. A message with another body, or with data behind the JSON value, is
// buried with the reason, unless HandleOptions.OnBadJSON says otherwise.
func HandleJSON[T any](s *Subscriber, topic string, handler func(context.Context, *Delivery, T) error, options ...HandleOptions) error {
	o, err := store.Option(options)
	if handler == nil {
		return s.handle(topic, nil, o, err)
	}
	return s.handle(topic, func(ctx context.Context, d *Delivery) error {
		var value T
		err := json.Unmarshal(d.Body, &value)
		switch {
		case err == nil:
			return handler(ctx, d, value)
		case o.OnBadJSON != nil:
			return o.OnBadJSON(ctx, d, err)
		}
		return badJSON{fmt.Errorf("body is no JSON of %v: %w", reflect.TypeFor[T](), err)}
	}, o, err)
}

// badJSON is why a body cannot be decoded. The message is buried.
type badJSON struct{ error }

func (badJSON) Is(target error) bool { return target == ErrBury }

func (b badJSON) Unwrap() error { return b.error }
