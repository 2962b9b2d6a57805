package conf_test

import (
	"testing"

	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	testkit "fettle.dev/fettle/internal/testkit/product"
)

func FuzzSet(f *testing.F) {
	f.Add("---\n# Ours: see the change 4711\napache::mod::event::serverlimit: 64   # hosts\npostgresql::server::config_entries:\n  max_connections: 1000\n  # keep\n  shared_buffers: '8GB'\n", "postgresql::server::config_entries/max_connections", "7")
	f.Add("", "a::b", "x: y")
	f.Fuzz(func(t *testing.T, text, key, value string) {
		testkit.Bytes(t, product.Product{Name: conf.Name, Kind: conf.Kind}, map[string]string{"/etc/foreman-installer/custom-hiera.yaml": text}, key, value)
	})
}
