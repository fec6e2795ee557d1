package archive

import (
	"context"

	"github.com/bellhopd/bellhop/notify/store"
)

// Write stores what ended, as Term does.
func (a *Archive) Write(ctx context.Context, storeID string, ended []store.Ending) error {
	w := &writer{Archive: a}
	defer w.close()
	return w.write(ctx, storeID, ended)
}
