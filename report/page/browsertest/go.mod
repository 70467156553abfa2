module github.com/vramscope/vramscope/report/page/browsertest

go 1.26.0

require github.com/vramscope/vramscope v0.0.0

require (
	github.com/chromedp/cdproto v0.160.1 // indirect
	github.com/chromedp/chromedp v0.23.1 // indirect
	github.com/go-json-experiment/json v1.27.2 // indirect
)

replace github.com/vramscope/vramscope => ../../..
