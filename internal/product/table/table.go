// Package table lists all products; a new product needs one line in All.
package table

import (
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/product/etcd"
	"fettle.dev/fettle/internal/product/foreman"
	"fettle.dev/fettle/internal/product/haproxy"
	"fettle.dev/fettle/internal/product/httpd"
	"fettle.dev/fettle/internal/product/kubelet"
	"fettle.dev/fettle/internal/product/mosquitto"
	"fettle.dev/fettle/internal/product/nginx"
	"fettle.dev/fettle/internal/product/postgresql"
	"fettle.dev/fettle/internal/product/prometheus"
	"fettle.dev/fettle/internal/product/puppetserver"
	"fettle.dev/fettle/internal/product/qpid"
	"fettle.dev/fettle/internal/product/redis"
	"fettle.dev/fettle/internal/setting"
)

// All lists the products that fettle knows.
var All = []product.Product{
	kubelet.Product,
	postgresql.Product,
	httpd.Product,
	redis.Product,
	etcd.Product,
	prometheus.Product,
	nginx.Product,
	foreman.Puma,
	foreman.Dynflow,
	haproxy.Product,
	mosquitto.Product,
	qpid.Product,
}

// Kinds returns the setting kinds of all products, including those for files that only a platform
// reads.
func Kinds(h *host.Host) setting.Kinds {
	kinds := setting.Kinds{conf.Name: conf.Kind(h), puppetserver.Name: puppetserver.Kind(h)}
	for _, p := range All {
		if p.Kind != nil {
			kinds[p.Name] = p.Kind(h)
		}
	}
	return kinds
}
