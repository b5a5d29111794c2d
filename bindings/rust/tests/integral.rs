//! Tables equal those of plain loops; matrices have what they were given.
use cusight::{box_sums, sys, Integrator, Matrix};

fn values(count: usize) -> Vec<u8> {
    (0..count).map(|i| ((i * i / 3) ^ (i * 37)) as u8).collect()
}

/// The sum of term(value) over the rectangle, for one channel.
fn sum(source: &Matrix<u8>, [x, y, width, height]: [usize; 4], channel: usize, term: impl Fn(f64) -> f64) -> f64 {
    let row = |j: usize| (x..x + width).map(move |i| source.row(j)[i * source.shape().2 + channel]);
    (y..y + height).flat_map(row).map(|value| term(f64::from(value))).sum()
}

#[test]
fn tables_of_bytes_are_exact() {
    for channels in 1..=4 {
        let source = Matrix::from_slice(19, 33, channels, &values(19 * 33 * channels)).unwrap();
        let mut integrator = Integrator::new(19, 33 * channels).unwrap();
        let whole: Matrix<i32> = integrator.sums(&source).unwrap();
        let double: Matrix<f64> = integrator.sums(&source).unwrap();
        let squares = integrator.squares(&source).unwrap();
        assert_eq!(whole.shape(), (20, 34, channels));
        for (y, x, c) in (0..20).flat_map(|y| (0..34).map(move |x| (y, x))).flat_map(|(y, x)| (0..channels).map(move |c| (y, x, c)))
        {
            let (wanted, i) = (sum(&source, [0, 0, x, y], c, |value| value), x * channels + c);
            assert_eq!((whole.row(y)[i], double.row(y)[i]), (wanted as i32, wanted));
            assert_eq!(squares.row(y)[i], sum(&source, [0, 0, x, y], c, |value| value * value));
        }
        let boxes = box_sums(&whole, &[[3, 4, 20, 9], [0, 0, 34, 1], [5, 5, 0, 7]]).unwrap();
        for c in 0..channels {
            assert_eq!(boxes.row(0)[c], sum(&source, [3, 4, 20, 9], c, |value| value));
            assert!(boxes.row(1)[c].is_nan() && boxes.row(2)[c] == 0.0);
        }
    }
}

#[test]
fn floats_and_reproducible_tables() {
    let floats: Vec<f32> = values(600).iter().map(|&value| f32::from(value) / 3.0 - 20.0).collect();
    let source = Matrix::from_slice(20, 30, 1, &floats).unwrap();
    let mut integrator = Integrator::new(20, 30).unwrap();
    let total: f64 = floats.iter().map(|&value| f64::from(value)).sum();
    let plain: Matrix<f64> = integrator.sums(&source).unwrap();
    assert!((plain.row(20)[30] - total).abs() < 1e-9);
    // What is below a unit of the largest value, 1e20, is lost, and that exactly: 1 x 2^(67 - 51) is the unit.
    integrator.reproducible = true;
    let coarse = Matrix::from_slice(1, 3, 1, &[1.0f32, 1e20, -1e20]).unwrap();
    let table: Matrix<f64> = integrator.sums(&coarse).unwrap();
    assert_eq!(table.row(1), [0.0, 0.0, f64::from(1e20f32), 0.0]);
    integrator.reproducible = false;
    let table: Matrix<f64> = integrator.sums(&coarse).unwrap();
    assert_eq!(table.row(1)[1], 1.0);
}

#[test]
fn matrices_keep_values_and_refuse_wrong_sizes() {
    let given = values(7 * 5 * 2);
    let mut matrix = Matrix::from_slice(7, 5, 2, &given).unwrap();
    assert_eq!(matrix.to_vec(), given);
    let part = matrix.region(1, 2, 3, 4).unwrap();
    assert_eq!(part.shape(), (4, 3, 2));
    assert_eq!(part.row(3), &matrix.row(5)[2..8]);
    matrix.row_mut(5)[2] ^= 1;
    assert_ne!(part.row(3)[0], matrix.row(5)[2]); // a copy

    let message = |result: cusight::Result<Matrix<u8>>| result.err().unwrap().message;
    assert_eq!(
        message(Matrix::from_slice(7, 5, 1, &given)),
        "Matrix::from_slice: values has 70 elements, expected 7 x 5 x 1, of 1 to 512 channels"
    );
    assert_eq!(
        message(Matrix::from_slice(usize::MAX, 5, 2, &given)).split(", ").next().unwrap(),
        "Matrix::from_slice: values has 70 elements"
    );
    assert_eq!(
        message(Matrix::from_slice(1, 1, 513, &[0; 513])),
        "Matrix::from_slice: values has 513 elements, expected 1 x 1 x 513, of 1 to 512 channels"
    );
    assert!(Matrix::from_slice(1, 1, 512, &[0u8; 512]).unwrap().shape().2 == 512);
    assert!(message(Matrix::from_slice(0, 5, 1, &[])).starts_with("cusMatCreate: "));
    assert!(message(matrix.region(3, 0, 3, 1)).starts_with("cusMatRegion: "));
    let error = Integrator::new(6, 5).unwrap().sums::<u8, i32>(&matrix).err().unwrap();
    assert_eq!(error.status, sys::CUS_ERROR_SIZE);
    assert!(std::panic::catch_unwind(|| part.row(4)[0]).is_err());
}

#[test]
fn matrices_are_read_by_several_threads() {
    let source = Matrix::from_slice(64, 64, 1, &values(4096)).unwrap();
    let sums: Vec<i32> = std::thread::scope(|scope| {
        let run = || Integrator::new(64, 64).unwrap().sums::<u8, i32>(&source).unwrap().row(64)[64];
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    assert_eq!(sums, [sum(&source, [0, 0, 64, 64], 0, |value| value) as i32; 4]);
}
