package store_test

import (
	"testing"

	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }
