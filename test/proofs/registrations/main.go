// Command registrations registers hosts with an application on a Unix socket, with the given number
// of concurrent clients, and prints the rate.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	socket := flag.String("socket", "/srv/register/tmp/app.sock", "of the application")
	clients := flag.Int("clients", 16, "at a time")
	n := flag.Int("n", 400, "hosts")
	flag.Parse()
	// Each host has its own connection, as in reality. Kept connections would stay with the
	// workers that accepted them, which would be another distribution in each run.
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", *socket)
	}}}
	began := time.Now()
	var next, failed atomic.Int64
	var wg sync.WaitGroup
	for range *clients {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(*n); i = next.Add(1) {
				if err := register(client, fmt.Sprintf("host-%d-%d", began.UnixNano(), i)); err != nil && failed.Add(1) == 1 {
					fmt.Fprintln(os.Stderr, "registrations:", err)
				}
			}
		})
	}
	wg.Wait()
	if f := failed.Load(); f > 0 {
		fmt.Fprintf(os.Stderr, "registrations: %d of %d failed\n", f, *n)
		os.Exit(1)
	}
	fmt.Printf("%.2f registrations/s\n", float64(*n)/time.Since(began).Seconds())
}

func register(c *http.Client, host string) error {
	resp, err := c.Post("http://localhost/register", "application/json", strings.NewReader(`{"name": "`+host+`"}`))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("%s: %s", host, resp.Status)
	}
	return nil
}
