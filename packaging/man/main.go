// Man writes fettle's manual pages (section 8) and shell completions to a directory. It
// generates them from the commands.
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra/doc"

	"fettle.dev/fettle/internal/cli"
)

func main() {
	log.SetFlags(0)
	version := flag.String("version", "devel", "version to print")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: man [-version V] DIR")
	}
	dir := flag.Arg(0)
	root := cli.Command(*version)
	root.DisableAutoGenTag = true
	epoch, _ := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64) // otherwise 1970: reproducible
	when := time.Unix(epoch, 0).UTC()
	check(os.MkdirAll(filepath.Join(dir, "man"), 0o755))
	check(os.MkdirAll(filepath.Join(dir, "completion"), 0o755))
	check(doc.GenManTree(root, &doc.GenManHeader{Section: "8", Source: "fettle " + *version, Manual: "fettle", Date: &when}, filepath.Join(dir, "man")))
	check(root.GenBashCompletionFileV2(filepath.Join(dir, "completion", "fettle.bash"), true))
	check(root.GenZshCompletionFile(filepath.Join(dir, "completion", "_fettle")))
	check(root.GenFishCompletionFile(filepath.Join(dir, "completion", "fettle.fish"), true))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
