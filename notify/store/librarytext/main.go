// Librarytext writes the library of functions of package store, for luacheck and for readers.
package main

import (
	"fmt"

	"github.com/bellhopd/bellhop/notify/store"
)

func main() { fmt.Print(store.LibraryText()) }
