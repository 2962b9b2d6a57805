// Program writelog writes a generated access log to standard output, for the benchmarks of
// test/peers: writelog FORMAT LINES, or writelog puppet.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"fettle.dev/fettle/internal/testkit/accesslog"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "writelog:", err)
		os.Exit(2)
	}
}

func run(words []string) error {
	if len(words) == 1 && words[0] == "puppet" {
		_, _, err := accesslog.WritePuppet(os.Stdout)
		return err
	}
	if len(words) != 2 {
		return errors.New("want FORMAT and the number of lines, such as caddy 1000000, or puppet")
	}
	format, err := accesslog.Find(words[0])
	if err != nil {
		return err
	}
	lines, err := strconv.Atoi(words[1])
	if err != nil || lines < 1 {
		return fmt.Errorf("%s is not a number of lines", words[1])
	}
	return format.Write(os.Stdout, lines, accesslog.Seed)
}
