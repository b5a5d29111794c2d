//! The rows of bytes in test/golden/tables: a checksum of each result, as in test/golden/integral.cpp and match.cpp.
use cusight::{box_sums, integral, integral_of_squares, Error, MatchOptions, Matcher, Matrix, Method, View};

/// splitmix64
struct Numbers(u64);
impl Numbers {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e3779b97f4a7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58476d1ce4e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d049bb133111eb);
        ((z ^ z >> 31) >> 32) as u32
    }
}

struct Row<'a> {
    function: &'a str,
    options: &'a str,
    content: &'a str,
    seed: u64,
    rows: usize,
    cols: usize,
    channels: usize,
    checksum: &'a str,
}

fn size(text: &str) -> (usize, usize) {
    let (rows, cols) = text.split_once('x').unwrap();
    (rows.parse().unwrap(), cols.parse().unwrap())
}

/// Those of bytes.
fn rows(table: &str) -> Vec<Row<'_>> {
    let columns = table.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let bytes = columns.filter(|c| c[4].starts_with("8UC") && c[1].contains("; "));
    bytes
        .map(|c| {
            let (options, content) = c[1].split_once("; ").unwrap();
            let (rows, cols) = size(c[3]);
            Row {
                function: c[0],
                options,
                content,
                seed: c[2].parse().unwrap(),
                rows,
                cols,
                channels: c[4][3..].parse().unwrap(),
                checksum: c[5],
            }
        })
        .collect()
}

fn checksum(bytes: &[u8]) -> String {
    format!("{:08x}", unsafe { cusight_sys::cusCrc32c(0, bytes.as_ptr() as *const _, bytes.len()) })
}

fn append<T: cusight::Element>(bytes: &mut Vec<u8>, matrix: &Matrix<T>, number: fn(&T) -> Vec<u8>) {
    for y in 0..matrix.rows() {
        bytes.extend(matrix.row(y).iter().flat_map(number));
    }
}

#[test]
fn integral_images() {
    let mut compared = 0;
    for row in rows(include_str!("../../../test/golden/tables/integral.csv")).iter().filter(|row| row.function == "cusIntegral") {
        let (mut numbers, white) = (Numbers(row.seed), row.content == "white");
        let data: Vec<u8> =
            (0..row.rows * row.cols * row.channels).map(|_| if white { 255 } else { numbers.next() as u8 }).collect();
        let (image, mut bytes) = (View::new(&data, row.rows, row.cols, row.channels).unwrap(), Vec::new());
        if row.options.contains("sum 32S") {
            append(&mut bytes, &integral::<i32, _>(image).unwrap(), |v| v.to_ne_bytes().into());
        } else if row.options.contains("sum 64F") {
            append(&mut bytes, &integral::<f64, _>(image).unwrap(), |v| v.to_ne_bytes().into());
        }
        if row.options.contains("sqsum") {
            append(&mut bytes, &integral_of_squares(image).unwrap(), |v| v.to_ne_bytes().into());
        }
        assert_eq!(
            checksum(&bytes),
            row.checksum,
            "{}; {}, {} x {} x {}",
            row.options,
            row.content,
            row.rows,
            row.cols,
            row.channels
        );
        compared += 1;
    }
    assert_eq!(compared, 7 * 15);
}

#[test]
fn matches() {
    let methods = [Method::Sqdiff, Method::SqdiffNormed, Method::Ccorr, Method::CcorrNormed, Method::Ccoeff, Method::CcoeffNormed];
    let names = ["sqdiff", "sqdiff-normed", "ccorr", "ccorr-normed", "ccoeff", "ccoeff-normed"];
    let mut compared = 0;
    for row in rows(include_str!("../../../test/golden/tables/match.csv")).iter().filter(|row| row.function == "cusMatcherRun") {
        let words: Vec<&str> = row.options.split(' ').collect();
        let value = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)).unwrap();
        let (height, width) = size(value("template="));
        let (c, mut numbers) = (row.channels, Numbers(row.seed));
        let pixel = |i: usize| (i / c % row.cols % 5 * 50 + i / c / row.cols % 3 * 20 + i % c) as u8;
        let periodic = row.content == "periodic";
        let data: Vec<u8> =
            (0..row.rows * row.cols * c).map(|i| if periodic { pixel(i) } else { (numbers.next() >> 24) as u8 }).collect();
        let (top, left) = ((row.rows - height) / 2, (row.cols - width) / 3);
        let mut part: Vec<u8> = (0..height).flat_map(|y| data[((top + y) * row.cols + left) * c..][..width * c].to_vec()).collect();
        part[0] = part[0].wrapping_add(3);
        let mut numbers = Numbers(row.seed);
        let mask: Vec<u8> = (0..height * width).map(|i| if i == 0 || numbers.next() % 4 > 0 { 255 } else { 0 }).collect();

        let options = MatchOptions {
            method: methods[names.iter().position(|&name| name == words[0]).unwrap()],
            max_matches: value("max_matches=").parse().unwrap(),
            min_distance: 3,
            subpixel: words.contains(&"subpixel"),
            ..MatchOptions::default()
        };
        let mask = words.contains(&"mask").then(|| View::new(&mask, height, width, 1).unwrap());
        let part = View::new(&part, height, width, c).unwrap();
        let mut matcher = Matcher::new(&[part], mask, row.rows, row.cols, &options).unwrap();
        let mut bytes = Vec::new();
        for m in &matcher.run(View::new(&data, row.rows, row.cols, c).unwrap()).unwrap()[0] {
            for number in [m.x, m.y, 0, -1] {
                bytes.extend(number.to_ne_bytes());
            }
            bytes.extend(m.score.to_ne_bytes());
            if options.subpixel {
                bytes.extend([m.dx.to_ne_bytes(), m.dy.to_ne_bytes()].concat());
            }
        }
        assert_eq!(checksum(&bytes), row.checksum, "{}; {}, {} x {} x {c}", row.options, row.content, row.rows, row.cols);
        compared += 1;
    }
    assert!(compared > 300, "{compared} rows");
}

#[test]
fn errors_are_the_librarys() {
    let message = |error: Option<Error>| error.unwrap().message;
    let bytes = [7u8; 12];
    assert_eq!(
        message(View::new(&bytes, 4, 4, 1).err()),
        "View: 4 x 4 with 1 channels and a stride of 4 does not fit into 12 numbers"
    );
    assert!(View::new(&bytes, usize::MAX, 2, 1).is_err() && View::with_stride(&bytes, 2, 2, 1, usize::MAX).is_err());
    let frame = View::new(&bytes, 3, 4, 1).unwrap();
    let large = MatchOptions { max_matches: 1025, ..MatchOptions::default() };
    let error = Matcher::new(&[frame], None, 3, 4, &large).err().unwrap();
    assert_eq!(error.status, cusight_sys::CUS_ERROR_VALUE);
    assert!(error.message.starts_with("cusMatcherCreate: "), "{error}");
    assert!(message(Matcher::<u8>::new(&[], None, 3, 4, &MatchOptions::default()).err()).contains("count"));
    assert!(box_sums(integral::<i32, _>(frame).unwrap().view(), &[[0, 0, 5, 1]]).unwrap().row(0)[0].is_nan());
    let floats = [0.5f32; 12];
    let image = View::new(&floats, 3, 4, 1).unwrap();
    assert_eq!(integral::<i32, _>(image).err().unwrap().status, cusight_sys::CUS_ERROR_TYPE);
    assert_eq!(integral::<f64, _>(image).unwrap().row(3)[4], 6.0);
}

#[test]
fn a_matcher_may_move_to_another_thread() {
    let bytes: Vec<u8> = (0..600u32).map(|i| (i * i % 251) as u8).collect();
    let part = View::with_stride(&bytes[4 * 30 + 9..], 5, 6, 1, 30).unwrap();
    let mut matcher = Matcher::new(&[part, part], None, 20, 30, &MatchOptions::default()).unwrap();
    let found = std::thread::spawn(move || matcher.run(View::new(&bytes, 20, 30, 1).unwrap()).unwrap()).join().unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(found[0], found[1]);
    assert_eq!((found[1][0].x, found[1][0].y, found[1][0].score), (9, 4, 1.0));
}
