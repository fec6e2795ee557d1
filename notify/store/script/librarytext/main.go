// Librarytext writes the library of transitions, for luacheck and for readers.
package main

import (
	"fmt"

	_ "github.com/bellhopd/bellhop/notify/store" // it defines the transitions
	"github.com/bellhopd/bellhop/notify/store/script"
)

func main() { fmt.Print(script.LibraryText()) }
