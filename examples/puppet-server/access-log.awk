# Writes the log of a Puppet Server with 500 runs of 40 agents, one run every 20 seconds.
function line(method, path, ms) {
	printf "10.0.0.7 - - [20/Nov/2026:%02d:%02d:%02d +0000] \"%s %s HTTP/1.1\" 200 333 \"-\" \"Puppet/7.23.0\" %d - 0\n",
		s / 3600 % 24, s / 60 % 60, s % 60, method, path, ms
}
BEGIN {
	for (run = 0; run < 500; run++) {
		s = run * 20
		n = run % 40
		line("GET", "/puppet/v3/file_metadatas/plugins?environment=production", 800)
		line("POST", "/puppet/v3/catalog/node" n "?environment=production", 5000)
		for (f = 0; f < 30; f++)
			line("GET", "/puppet/v3/file_metadata/modules/m/f" f "?environment=production", 14)
		line("PUT", "/puppet/v3/report/node" n "?environment=production", 400)
	}
}
