//! Boxes, lines and words of a picture, as SVG.
//!
//! Lines lie under boxes, whatever the order in which they come. All text from outside is escaped.

use std::fmt::Write;

pub const RED: &str = "#c62828";

/// How a box looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    Plain,
    Switch,
    Down,
    Empty,
    /// The server whose rings are drawn, and its rings.
    Master,
    Recoverer,
    Feeder,
    Other,
}

impl Look {
    /// Colours of fill, border and text, and whether the border is dashed.
    fn colors(self) -> (&'static str, &'static str, &'static str, bool) {
        match self {
            Look::Plain => ("#e8eef7", "#4e79a7", "#000", false),
            Look::Switch => ("#d9d9d9", "#555", "#000", false),
            Look::Down => ("#fdecea", RED, RED, false),
            Look::Empty => ("#fff", "#aaa", "#888", true),
            Look::Master => ("#2f5d8c", "#1b3a5a", "#fff", false),
            Look::Recoverer => ("#f5b26b", "#b8680f", "#000", false),
            Look::Feeder => ("#bfe3b4", "#3f7f35", "#000", false),
            Look::Other => ("#f5f5f5", "#bbb", "#666", false),
        }
    }
}

/// A box with some lines of text, and what is told when the pointer is on it.
pub struct Tile {
    pub lines: Vec<String>,
    pub hint: String,
    pub look: Look,
}

#[derive(Default)]
pub struct Canvas {
    under: String,
    over: String,
    right: f64,
    bottom: f64,
}

impl Canvas {
    pub fn bottom(&self) -> f64 {
        self.bottom
    }

    fn reach(&mut self, x: f64, y: f64) {
        self.right = self.right.max(x);
        self.bottom = self.bottom.max(y);
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), color: &str, is_dashed: bool) {
        let dashes = if is_dashed { " stroke-dasharray=\"5 4\"" } else { "" };
        let ((x1, y1), (x2, y2)) = (from, to);
        put(
            &mut self.under,
            format_args!(
                "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{color}\" \
                 stroke-width=\"1.5\"{dashes}/>\n"
            ),
        );
        self.reach(x1.max(x2), y1.max(y2));
    }

    /// The mark of something that is down.
    pub fn cross(&mut self, (x, y): (f64, f64)) {
        let (left, right, top, bottom) = (x - 5.0, x + 5.0, y - 5.0, y + 5.0);
        put(
            &mut self.over,
            format_args!(
                "<path d=\"M{left:.1} {top:.1}L{right:.1} {bottom:.1}M{left:.1} {bottom:.1}L{right:.1} {top:.1}\" \
                 stroke=\"{RED}\" stroke-width=\"2.5\"/>\n"
            ),
        );
    }

    /// An empty box.
    pub fn shape(&mut self, x: f64, y: f64, width: f64, height: f64, look: Look) {
        let (fill, border, _, is_dashed) = look.colors();
        let dashes = if is_dashed { " stroke-dasharray=\"4 3\"" } else { "" };
        put(
            &mut self.over,
            format_args!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"4\" \
                 fill=\"{fill}\" stroke=\"{border}\"{dashes}/>\n"
            ),
        );
        self.reach(x + width, y + height);
    }

    /// A frame around other things, under them.
    pub fn frame(&mut self, x: f64, y: f64, width: f64, height: f64) {
        put(
            &mut self.under,
            format_args!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"6\" fill=\"none\" \
                 stroke=\"#999\"/>\n"
            ),
        );
        self.reach(x + width, y + height);
    }

    /// A box with its text in the middle. A line that is too long is cut; the hint has all.
    pub fn tile(&mut self, x: f64, y: f64, width: f64, height: f64, what: &Tile) {
        put(&mut self.over, format_args!("<g><title>{}</title>\n", escaped(&what.hint)));
        self.shape(x, y, width, height, what.look);
        let (_, _, color, _) = what.look.colors();
        let mut at = y + height / 2.0 + 4.0 - 7.0 * (what.lines.len() as f64 - 1.0);
        // The first line is larger.
        for (size, line) in [12.0].into_iter().chain(std::iter::repeat(11.0)).zip(&what.lines) {
            let most = (width / size * 1.75) as usize;
            let shown = escaped(&crate::screen::cut(line, most.max(3)));
            put(
                &mut self.over,
                format_args!(
                    "<text x=\"{:.1}\" y=\"{at:.1}\" font-size=\"{size:.0}\" text-anchor=\"middle\" \
                     fill=\"{color}\">{shown}</text>\n",
                    x + width / 2.0
                ),
            );
            at += 15.0;
        }
        put(&mut self.over, format_args!("</g>\n"));
        if what.look == Look::Down {
            self.cross((x + width - 2.0, y + 2.0));
        }
    }

    pub fn text(&mut self, x: f64, y: f64, size: f64, color: &str, text: &str) {
        put(
            &mut self.over,
            format_args!(
                "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size:.0}\" fill=\"{color}\">{}</text>\n",
                escaped(text)
            ),
        );
        // Letters are about half as wide as they are high.
        self.reach(x + size * 0.55 * text.chars().count() as f64, y);
    }

    pub fn svg(self, width_min: f64, margin: f64) -> String {
        let (width, height) = ((self.right + margin).max(width_min), self.bottom + margin);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}{}\
             </svg>\n",
            self.under, self.over
        )
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes everything");
}

/// Text between tags.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
